/**
 * Recompute what an evidence bundle of Echelon Theatre claims, in a browser or with Node:
 *
 *     node verify.js BUNDLE [--trust trust.json] [--json]
 *
 * where BUNDLE is its folder or its archive. Exit code 0: no line failed; 1: one did; 2: no bundle.
 *
 * No dependency but WebCrypto. In: a map of paths to bytes. Out: a line for each check, by the ids
 * of `echelon check`; what is not computed here is a line "not checked", with the reason. It reads
 * a stranger's bytes: what is missing or of another form raises, and its line has failed.
 *
 * In the order in which a reader asks: 1 the result, 2 the files, 3 what was committed, 4 the run,
 * 5 scores and aggregate, 6 the tier, 7 the certificate, 8 who signed and logged it. Then what
 * these rest on: 9 the bundle, 10 numbers and times, 11 JSON, 12 bytes, 13 the command.
 */

// ---- 1 The result (docs/check.md) ----

const OK = "ok";
const FAILED = "failed";
const UNCHECKED = "not checked";

/** Something in the bundle is not as it must be. */
class Defect extends Error {
  constructor(message, expected = "", got = "") {
    super(message);
    this.expected = expected;
    this.got = got;
  }
}
/** A check that cannot be made here, or with what is at hand: neither right nor wrong. */
class Unsettled extends Error {}

/** The lines of a result, in the order of `echelon check`: a check, or why it is not made here. */
const LINES = {
  inventory: checkInventory,
  sums: checkSums,
  "canonical-form": checkCanonicalForm,
  "bundle-hash": checkBundleHash,
  manifest: checkManifest,
  "certificate-schema": "no JSON Schema here: certificate-fields compares every member",
  "certificate-copy": "echelon check --certificate compares it with one that you have kept",
  template: checkTemplate,
  commitment: checkCommitment,
  coin: checkCoin,
  datasets: checkDatasets,
  "audit-chain": checkAuditChain,
  "audit-episodes": checkAuditEpisodes,
  times: checkTimes,
  invocations: "the requests of each call are not built again here",
  "sanitised-input": "no sanitiser is in a browser",
  "version-pins": "neither requests nor the versions of models are built again here",
  scorers: "no scorer is in a browser: a line's scores are taken from scores/per_episode.jsonl",
  outcomes: checkOutcomes,
  scores: checkScores,
  "human-scores": "who may rate, when, and how far people agree is not computed here",
  aggregate: checkAggregate,
  "results-hash": checkResultsHash,
  "data-audit": "it needs Unicode case folding, which browsers have not",
  baselines: "only a scorer can say what trivial answers score",
  resolution: "its steps run computations",
  tier: checkTier,
  "certificate-fields": checkCertificateFields,
  signature: async (bundle) => (await signatureOf(bundle)).note,
  "signer-trusted": checkSigner,
  "commitment-logged": async (bundle) => (await commitmentEntry(bundle)).note,
  "certificate-logged": async (bundle) => (await certificateEntry(bundle)).note,
  order: checkOrder,
  witnesses: "who else saw the log is not checked here",
  closure: "only a log can say whether what was committed is closed: echelon check --online",
};

/**
 * What a bundle may have and no check here computes: it is taken as the bundle states it. Each such
 * part has a line of its own where it is there, so that no line that is "ok" speaks for it.
 */
const STATED_PARTS = {
  intervals: ["bounds other than Wilson's, and what sets train and holdout apart, are as stated",
    () => true],
  calibration: ["Brier score, ECE and bins, or that there are none, are as stated", () => true],
  usage: ["tokens, cost and latency are as stated", () => true],
  repeats: ["variance within episodes and pass rates are as stated",
    (bundle) => bundle.repeats > 1],
  qualifications: ["which measure qualifies, and scores corrected for its errors, are as stated",
    (bundle) => qualified(bundle).length > 0 || countsControls(bundle)],
  history: ["what is missing for PROVEN rests on other runs, and is as stated",
    (bundle) => hasHistory(bundle.json("tier.json").history)],
};

/** What can be checked where a template withholds episodes: the rest needs `echelon check`. */
const OF_PUBLISHED = [
  "canonical-form", "bundle-hash", "manifest", "template", "commitment", "audit-chain",
  "results-hash", "signature", "signer-trusted", "commitment-logged", "certificate-logged", "order",
];

const NEEDS_CRYPTO = "a browser verifies only in pages that came by https, from this machine "
  + "(http://localhost) or from a file: here it gives no cryptography to scripts";

/**
 * Verify a bundle.
 * @param {Map<string, Uint8Array>} files  path below the bundle's folder → bytes
 * @param {{trust?: Uint8Array, trustFrom?: string, now?: number}} options  `trust`: the issuer's
 *   trust.json; `trustFrom`: where it came from, if not from him; `now`: milliseconds since 1970
 * @returns {Promise<{lines: {id: string, status: string, expected: string, got: string,
 *   why: string}[], failed: string[], unchecked: string[], ok: boolean, verdict: string}>}
 *   `ok` is never true while a line has failed, and says no more than that none has.
 */
export async function verify(files, { trust, trustFrom = "", now = Date.now() } = {}) {
  if (!subtle) throw new Error(NEEDS_CRYPTO);
  if (!files.has("certificate.json") && files.has("reproduction.json"))
    throw new Error("a reproduction certifies nothing: `echelon check` compares it");
  const bundle = new Bundle(files, { trust, trustFrom, now });
  const lines = [];
  const add = (id, { status, why, expected = "", got = "" }) =>
    lines.push({ id, status, expected, got, why });
  for (const [id, check] of Object.entries(LINES))
    add(id, await outcomeOf(() => {
      if (typeof check === "string") throw new Unsettled(check);
      if (bundle.isPublished && !OF_PUBLISHED.includes(id))
        throw new Unsettled("this template withholds episodes");
      return check(bundle);
    }));
  for (const [id, [why, isThere]] of Object.entries(bundle.isPublished ? {} : STATED_PARTS)) {
    const { status } = await outcomeOf(() => expect(!isThere(bundle), id));
    if (status !== OK) add(id, { status: UNCHECKED, why });
  }
  const idsOf = (status) => lines.filter((line) => line.status === status).map(({ id }) => id);
  const [failed, unchecked] = [idsOf(FAILED), idsOf(UNCHECKED)];
  const verdict = failed.length
    ? `not valid: ${failed.length} of ${lines.length} checks failed: ${failed.join(", ")}`
    : `verified in your browser: ${lines.length - unchecked.length} of ${lines.length}; `
      + `${unchecked.length} need \`echelon check\`: ${unchecked.join(", ")}`;
  return { lines, failed, unchecked, ok: !failed.length, verdict };
}

async function outcomeOf(make) {
  try {
    return { status: OK, why: (await make()) || "" };
  } catch (error) {
    if (error instanceof Unsettled) return { status: UNCHECKED, why: error.message };
    const isKnown = error instanceof Defect;
    const why = isKnown ? error.message : `not of the expected form (${error.message})`;
    return { status: FAILED, why, expected: error.expected, got: error.got };
  }
}

// ---- 2 The files (docs/contract/evidence.md §4 and §8) ----

const PROOFS = [
  "proofs/certificate.sigstore.json", "proofs/certificate.tlog-proof",
  "proofs/commitment.tlog-proof", "proofs/trust.json",
];
const REQUIRED = [
  "template.json", "commitment_receipt.json", "coin.txt", "ground_truth/dataset.jsonl",
  "scores/per_episode.jsonl", "scores/aggregate.json", "scores/data_audit.json",
  "scores/baselines.json", "resolution.json", "tier.json", "audit_trail.jsonl", "manifest.json",
  "SHA256SUMS", "certificate.json",
];
const UNSUMMED = ["manifest.json", "SHA256SUMS", "certificate.json"];

async function checkInventory(bundle) {
  const { file_inventory: inventory } = bundle.json("manifest.json");
  const listed = new Map(inventory.map((one) => [one.path, one]));
  const found = [];
  for (const path of bundle.paths.filter((one) => one !== "manifest.json")) {
    const raw = bundle.raw(path);
    found.push({ path, size_bytes: raw.length, sha256: await sha256(raw) });
    same(`manifest.json: ${path}`, found.at(-1), listed.get(path) ?? null);
  }
  same("manifest.json/file_inventory", found, inventory);
  const records = bundle.dataset.map((_, at) => placeOf(at + 1, bundle.dataset.length)[0]);
  const wanted = new Set([
    ...REQUIRED,
    ...Object.keys(bundle.groundTruth).map((name) => `ground_truth/${name}`),
    ...bundle.details("hitl_opened").map((one) => `hitl/${one.step_id}.jsonl`),
    ...records.filter((path) => bundle.files.has(path)),
  ]);
  for (const path of bundle.paths) expect(wanted.has(path), `${path}: one file too many`);
  for (const path of wanted) expect(bundle.files.has(path), `${path}: missing`);
}

async function checkSums(bundle) {
  const stated = textOf(bundle.raw("SHA256SUMS"));
  const listed = new Map(stated.split("\n").map((line) => [line.slice(66), line.slice(0, 64)]));
  let expected = "";
  // Line by line, so that the file is named that has another digest.
  for (const path of bundle.paths.filter((one) => !UNSUMMED.includes(one))) {
    const sum = await sha256(bundle.raw(path));
    same(`SHA256SUMS: ${path}`, sum, listed.get(path) ?? null);
    expected += `${sum}  ${path}\n`;
  }
  expect(expected === stated, "SHA256SUMS: another order, or paths that are not there");
}

function checkCanonicalForm(bundle) {
  for (const path of bundle.paths.filter((one) => !one.startsWith("ground_truth/"))) {
    if (path.endsWith(".json")) {
      const expected = bytesOf(`${canonical(bundle.json(path))}\n`);
      expect(sameBytes(bundle.raw(path), expected), `${path}: not RFC 8785 and a line feed`);
    }
    if (path.endsWith(".jsonl"))
      for (const [raw, value] of bundle.lines(path))
        expect(sameBytes(raw, bytesOf(canonical(value))), `${path}: a line is not canonical`);
  }
}

async function checkBundleHash(bundle) {
  const hash = await sha256(bundle.raw("SHA256SUMS"));
  same("manifest.json/bundle_hash", hash, bundle.json("manifest.json").bundle_hash);
  same("certificate.json/evidence_bundle_hash", hash, bundle.certificate.evidence_bundle_hash);
}

async function checkManifest(bundle) {
  const manifest = bundle.json("manifest.json");
  const pins = bundle.template.version_pins;
  const bundleHash = await sha256(bundle.raw("SHA256SUMS"));
  const { theatre_id } = bundle.receipt;
  const expected = {
    bundle_id: await uuid5(theatre_id, bundleHash), theatre_id, bundle_hash: bundleHash,
    commitment_hash: await bundle.commitmentHash, file_inventory: manifest.file_inventory,
    created_at: bundle.trail.at(-1).at, scorer_version: pins.scorer_version,
    methodology_version: pins.methodology_version ?? "1.0.0",
    construct_version: pins.constructs[bundle.underTest],
  };
  same("manifest.json", expected, manifest);
}

// ---- 3 What was committed (docs/contract/evidence.md §2, earned.md §4) ----

function checkTemplate(bundle) {
  same("template.json", bundle.receipt.template_snapshot, bundle.template);
  return "equal to the receipt's snapshot; its rules are not checked here";
}

async function checkCommitment(bundle) {
  const { template, receipt, activated, trail } = bundle;
  const hash = await bundle.commitmentHash;
  const kinds = Object.keys(activated.scorers).map(
    (name) => [name, kindOf(name, receipt.scorer_kinds)]);
  requireEnvironment(receipt.environment, "commitment_receipt.json/environment");
  if (receipt.isolation !== null) requireIsolation(receipt.isolation, "commitment_receipt.json");
  const expected = {
    ...pick(receipt, ["environment", "isolation", "coin_sha256"]), // the line `coin` is about it
    ...pick(template, ["version_pins", "dataset_hashes"]),
    theatre_id: trail[0].theatre_id, commitment_hash: hash, template_snapshot: template,
    scorer_pins: activated.scorers, scorer_kinds: Object.fromEntries(kinds),
    canonicalisation: "RFC8785", reproduces: null, escrowed_capital: null,
    committed_at: trail.find((one) => one.event_type === "committed").at,
  };
  same("commitment_receipt.json", expected, receipt);
  same("committed", { commitment_hash: hash }, bundle.only("committed"));
  // A kinder version of a scorer than the committed one would score the same answers higher.
  if (template.scorer_pins)
    for (const [name, pin] of Object.entries(activated.scorers))
      same(`scorer_pins/${name}`, template.scorer_pins[name] ?? null, pin);
}

function requireEnvironment(value, where) {
  if (value === null) return;
  same(where, ["environment_hash", "interpreter", "platform"], Object.keys(value).sort());
  const isText = Object.values(value).every((text) => typeof text === "string" && text);
  expect(isText && isSha256(value.environment_hash), `${where}: another form`);
}

async function checkCoin(bundle) {
  const hash = await sha256(bundle.coin);
  same("commitment_receipt.json/coin_sha256", hash, bundle.receipt.coin_sha256);
  same("certificate.json/coin_sha256", hash, bundle.certificate.coin_sha256);
}

async function checkDatasets(bundle) {
  const { dataset_hashes: hashes } = bundle.template;
  same("dataset_hashes", Object.keys(hashes).sort(), Object.values(bundle.groundTruth).sort());
  for (const [name, dataset] of Object.entries(bundle.groundTruth)) {
    const found = await sha256(bundle.raw(`ground_truth/${name}`));
    same(`ground_truth/${name}`, hashes[dataset], found);
  }
  expect(bundle.dataset.length && bundle.gold, "ground_truth: expected episodes");
}

// ---- 4 The run: chain, batches, times (docs/contract/evidence.md §5, §6 and §11) ----

const BATCH = ["episodes_recorded", "episode_failed", "episode_refused"];
const STEP = [
  "hitl_opened", "human_score", "human_score_refused", "step_completed", "step_failed",
  "step_skipped", "escalated",
];
const STATES = {
  created: [null, "DRAFT"],
  committed: ["DRAFT", "COMMITTED"],
  activated: ["COMMITTED", "ACTIVE"],
  settling: ["ACTIVE", "SETTLING"],
};

async function checkAuditChain(bundle) {
  const { trail, receipt, template } = bundle;
  let head = "0".repeat(64);
  for (const [seq, entry] of trail.entries()) {
    const { entry_hash: stated, ...linked } = entry;
    const [from, to] = STATES[entry.event_type] ?? [null, null];
    const expected = {
      ...pick(entry, ["event_type", "detail", "at"]),
      seq, prev_entry_hash: head, theatre_id: receipt.theatre_id, from_state: from, to_state: to,
      entry_hash: await sha256(bytesOf(canonical(linked))),
    };
    same(`audit_trail.jsonl, entry ${seq}`, expected, entry);
    head = stated;
  }
  const events = trail.map((entry) => entry.event_type);
  const settling = events.indexOf("settling");
  const isInOrder = events.slice(0, 3).join() === "created,committed,activated" && settling > 0
    && events.slice(3, settling).every((event) => BATCH.includes(event))
    && events.slice(settling + 1, -1).every((event) => STEP.includes(event))
    && events.at(-1) === "sealed";
  expect(isInOrder, "audit_trail.jsonl: another order than the lifecycle has");
  same("created", [{ template_id: template.theatre_id }], bundle.details("created"));
  same("settling", [{}], bundle.details("settling"));
  requireActivation(bundle);
  const { issuer } = bundle.only("sealed");
  const { at } = trail.at(-1);
  expect(typeof issuer === "string" && issuer, "sealed/issuer: expected a name");
  const name = `certificate:${await bundle.commitmentHash}`;
  const id = await uuid5(receipt.theatre_id, name);
  const sealed = { certificate_id: id, issuer, issued_at: at, theatre_resolved_at: at };
  same("sealed", sealed, bundle.only("sealed"));
}

/** What was there when the run began: as committed, and the same for the whole run. */
function requireActivation(bundle) {
  const { activated, template, chain, config } = bundle;
  const steps = template.resolution_programme;
  const isRated = steps.some((step) => step.type === "hitl_rubric");
  const members = [
    "adapters", "computations", "environment", "episodes", "isolation", "previous_environment",
    "sanitiser", "scorers",
    ...(isRated ? ["authors"] : []),
    ...(Object.hasOwn(activated, "run_nonce") ? ["run_nonce"] : []),
  ];
  same("activated", members.sort(), Object.keys(activated).sort());
  if (Object.hasOwn(activated, "run_nonce"))
    expect(isSha256(activated.run_nonce), "activated/run_nonce: expected a SHA-256");
  for (const name of ["environment", "previous_environment"])
    requireEnvironment(activated[name], `activated/${name}`);
  for (const name of ["isolation", "adapters"])
    same(`activated/${name}`, [...chain].sort(), Object.keys(activated[name]).sort());
  for (const name of chain) requireIsolation(activated.isolation[name], "activated/isolation");
  const isSanitised = typeof activated.sanitiser === "string";
  expect((bundle.policy.sanitise_input ?? true) === isSanitised
    && (isSanitised || activated.sanitiser === null),
    "activated/sanitiser: there, or not, against what was committed");
  const pinned = template.version_pins.adapter_version ?? null;
  for (const [name, adapter] of Object.entries(activated.adapters)) {
    const { adapter_type: type } = config.construct_endpoints?.[name] ?? config;
    const kind = adapter.split("@")[0];
    const isCommitted = kind === type || (kind === "plain_http" && type === "http");
    expect(isCommitted && type !== "mock" && (pinned === null || pinned === adapter),
      `activated/adapters: ${name} by an adapter that was not committed`);
  }
  // One construct for the whole run: another adapter may lead to another program.
  for (const [seq, record] of bundle.records)
    for (const { construct_id: name, adapter } of record.calls)
      expect(adapter === activated.adapters[name], `record ${seq}: ${name} by another adapter`);
}

async function checkAuditEpisodes(bundle) {
  const size = bundle.dataset.length;
  same("activated/episodes", size, bundle.activated.episodes);
  const batched = new Set();
  const expected = [];
  for (const detail of bundle.details("episodes_recorded")) {
    const seqs = [];
    for (const range of detail.seqs) {
      const [first, last] = range;
      const isRange = range.length === 2 && Number.isInteger(first) && Number.isInteger(last);
      expect(isRange, "episodes_recorded: expected numbers");
      for (let seq = first; seq <= last && seqs.length <= size; seq++) seqs.push(seq);
    }
    const isNew = seqs.every((seq, at) => !batched.has(seq) && (at === 0 || seqs[at - 1] < seq));
    expect(seqs.length && isNew && isSha256(detail.journal_sha256),
      "episodes_recorded: expected new episodes in order");
    for (const seq of seqs) {
      expect(bundle.records.has(seq), `episode ${seq}: no record`);
      batched.add(seq);
    }
    const records = seqs.map((seq) => bundle.records.get(seq));
    const statuses = countsOf(STATUSES, records.map((record) => record.status));
    const raw = joined(...records.map((record) => record.raw));
    expected.push(["episodes_recorded", { seqs: detail.seqs, statuses,
      journal_sha256: detail.journal_sha256, records_sha256: await sha256(raw) }]);
    for (const { status, trouble } of records)
      if (status !== "success")
        expected.push([status === "refused" ? "episode_refused" : "episode_failed", trouble]);
  }
  const recorded = bundle.trail.filter((entry) => BATCH.includes(entry.event_type))
    .map((entry) => [entry.event_type, entry.detail]);
  same("audit_trail.jsonl, batches", expected, recorded);
  // Records that no batch has could be exchanged after the run, and head and certificate hold.
  expect(batched.size === bundle.records.size, "other episodes than there are records");
}

function checkTimes(bundle) {
  const isRising = (times) => times.every((at, n) => n === 0 || times[n - 1] <= at);
  const stamps = bundle.trail.map((entry) => moment(entry.at));
  // Who answers first and commits afterwards knows what he commits to.
  expect(isRising(stamps), "audit_trail.jsonl: an earlier entry behind a later one");
  const [sealed, committed] = [stamps.at(-1), moment(bundle.receipt.committed_at)];
  for (const [seq, record] of bundle.records)
    for (const times of record.times) {
      expect(times[0] >= committed - 5n * SECOND, `record ${seq}: a call before the commitment`);
      expect(isRising(times), `record ${seq}: an answer before its call`);
      expect(times.at(-1) <= sealed, `record ${seq}: an answer behind the sealing`);
    }
  expect(sealed <= BigInt(bundle.now) * 1000n + 300n * SECOND, "a time that is yet to come");
}

// ---- 5 From the lines to the aggregate (docs/contract/scoring.md, evidence.md §8 and §9) ----

const STATUSES = ["success", "timeout", "error", "refused"];
const VERDICTS = [
  "scored", "missing", "not_applicable", "declined", "unscored", "excluded", "not_run",
];
const OUTCOMES = ["scored", "missing", "excluded", "unscored", "not_run"];
/** What an episode without an answer is, by its status. */
const WITHOUT_ANSWER = {
  timeout: "missing", error: "missing", refused: "excluded", not_run: "not_run",
};
const COMPOSITE = "composite_score";

const TEXTUAL = [
  "contains_terms", "debate_quality", "lexical_precision", "lexical_recall",
  "lexical_reply_accuracy", "sequence_similarity",
];
const EXACT = [
  "brier", "debate_transitions", "exact_match", "field_match", "freshness_decay", "harness_score",
  "hash_chain", "json_schema", "label_accuracy", "numeric_tolerance", "planted_faults",
  "record_completeness", "set_f1", "text_match", "timestamp_order",
];
const JUDGED = ["debate_judge", "llm_judge"];
const WITHOUT_TRUTH = [
  ...JUDGED, "contains_terms", "debate_quality", "freshness_decay", "harness_score", "json_schema",
  "lexical_precision", "record_completeness", "timestamp_order",
];

/** What a scorer's scores rest on: of shipped ones by the table, of others as stated. */
function kindOf(scorer, stated) {
  if (TEXTUAL.includes(scorer)) return "textual";
  if (EXACT.includes(scorer)) return "exact";
  if (JUDGED.includes(scorer)) return "judged";
  const own = stated[scorer];
  return ["exact", "textual", "judged"].includes(own) ? own : "textual";
}

/** What a template says about how scores are added up. */
function planOf({ template, policy }) {
  const scoring = template.scoring ?? {};
  const { criteria_ids: ids, weights: stated } = template.criteria;
  const isEqual = !stated || !Object.keys(stated).length;
  const weights = ids.map((id) => exact(isEqual ? 1 : stated[id] ?? 0));
  const people = (template.hitl_steps ?? []).filter(
    (step) => (step.share ?? null) !== null && (step.criterion_id ?? null) !== null,
  );
  return {
    ids,
    weights,
    split: exact(scoring.holdout_split ?? 0.2),
    mostRefused: exact(policy.max_refusal_rate ?? 0.5),
    mostFailed: (policy.on_threshold ?? "settle") === "settle"
      ? exact(policy.failure_threshold ?? 0.2) : null,
    people: new Map(people.map((step) => [step.criterion_id, exact(step.share)])),
  };
}

/** The scorer of a criterion, and its parameters. */
function scorerOf({ template }, id) {
  const own = template.scoring?.criteria_scorers ?? {};
  if (!Object.keys(own).length) return ["exact_match", { field: id, expected: id }];
  return [own[id].scorer, own[id].params ?? {}];
}

/** Whether the ground truth has anything to hold an episode's answer against on a criterion. */
function isApplicable(bundle, id, episode) {
  const [scorer, params] = scorerOf(bundle, id);
  let path = params.expected ?? null;
  let truth = episode.expected_output ?? null;
  if (path === null) return truth !== null || WITHOUT_TRUTH.includes(scorer);
  if (path.startsWith("gold:")) {
    path = path.slice("gold:".length);
    truth = bundle.gold.get(episode.episode_id) ?? null;
  }
  if (truth === null) return false;
  for (const step of path ? path.split(".") : []) {
    const isItem = Array.isArray(truth) && /^(0|[1-9][0-9]{0,8})$/.test(step);
    if (isItem ? Number(step) >= truth.length : !isObject(truth) || !Object.hasOwn(truth, step))
      return false;
    truth = truth[step];
  }
  return true;
}

/** A score in billionths, or the word for why a criterion has none. */
function verdictOf(bundle, { id, episode, status, line, declined }) {
  if (status === "not_run") return "not_run";
  if (!isApplicable(bundle, id, episode)) return "not_applicable";
  if (status !== "success") return WITHOUT_ANSWER[status];
  const score = line.scores[id];
  if (typeof score === "number") return billionths(score) ?? "unscored";
  // A line does not tell `declined` from `unscored`, and no mean differs between the two.
  if (declined[id] === 0) return "unscored";
  declined[id] -= 1;
  return "declined";
}

const runOf = (bundle) => bundle.once("run", () => added(bundle));

/** The run added up, episode by episode, and its lines as they must be. */
async function added(bundle) {
  const plan = planOf(bundle);
  const { dataset, records, repeats } = bundle;
  const stated = bundle.values("scores/per_episode.jsonl");
  expect(stated.length === dataset.length, `expected ${dataset.length} lines of scores`);
  const hash = await bundle.commitmentHash;
  const declined = perCriterion(plan, (id) => bundle.aggregate.score_counts[id].declined);
  const mostFailed = plan.mostFailed && times(plan.mostFailed, whole(dataset.length * repeats));
  const episodes = [];
  let failed = 0;
  for (const [at, episode] of dataset.entries()) {
    const record = records.get(at + 1);
    // Behind the end of a run nothing counts, whatever is recorded.
    const hasEnded = mostFailed !== null && less(mostFailed, whole(failed));
    const status = hasEnded || !record ? "not_run" : record.status;
    const answers = status === "not_run" || repeats === 1 ? [status] : record.statuses;
    failed += answers.filter((one) => WITHOUT_ANSWER[one] === "missing").length;
    const line = stated[at];
    const verdicts = plan.ids.map((id) =>
      verdictOf(bundle, { id, episode, status, line, declined }));
    const answered = verdicts.some(isScore) ? "scored" : "unscored";
    // The commitment hash draws the holdout.
    const drawn = hex(await digest(bytesOf(`${hash}:${episode.episode_id}`))).slice(0, 16);
    episodes.push({
      episode, line, status, answers, verdicts,
      outcome: status === "success" ? answered : WITHOUT_ANSWER[status],
      counted: verdicts.map((one) => (isScore(one) ? one : one === "missing" ? 0n : null)),
      holdout: BigInt(`0x${drawn}`) * plan.split.d < plan.split.n * 2n ** 64n,
    });
  }
  const ran = episodes.filter((one) => one.status !== "not_run");
  const wordsOf = (n) =>
    episodes.map(({ verdicts }) => (isScore(verdicts[n]) ? "scored" : verdicts[n]));
  return {
    plan, ran,
    lines: episodes.map((one, at) => lineOf(plan, one, at + 1, repeats)),
    isClustered: ran.some(({ episode }) => (episode.cluster_key ?? null) !== null),
    outcomes: countsOf(OUTCOMES, episodes.map((one) => one.outcome)),
    statuses: countsOf(STATUSES, ran.map((one) => one.status)),
    answers: countsOf(STATUSES, ran.flatMap((one) => one.answers)),
    verdicts: perCriterion(plan, (id, n) => countsOf(VERDICTS, wordsOf(n))),
  };
}

/** A line of scores/per_episode.jsonl; its composite is over the criteria that have a score. */
function lineOf(plan, { episode, line, outcome, counted, holdout }, seq, repeats) {
  const there = plan.ids.map((_, n) => n).filter((n) => counted[n] !== null);
  const weight = total(there.map((n) => plan.weights[n]));
  const points = total(there.map((n) => times(plan.weights[n], ratio(counted[n], NANO))));
  return {
    seq, episode_id: episode.episode_id, outcome, holdout,
    scores: perCriterion(plan, (id, n) => asNumber(counted[n])),
    composite: weight.n ? published(over(points, weight)) : null,
    ...(repeats > 1 ? { repeats: line.repeats } : {}),
  };
}

/** The mean of each criterion over scores and `words`; of these, each counts `gap`. */
function meansOf(run, words, gap = 0) {
  return perCriterion(run.plan, (id, n) => {
    const gaps = sum(words.map((word) => BigInt(run.verdicts[id][word])));
    const points = sum(run.ran.map((row) => row.counted[n] ?? 0n)) + BigInt(gap) * gaps * NANO;
    return ratio(points, (BigInt(run.verdicts[id].scored) + gaps) * NANO);
  });
}

/** The mean over all criteria, by weight; null where one has none. */
function weighted(plan, means) {
  if (plan.ids.some((id) => means[id] === null)) return null;
  const points = total(plan.ids.map((id, n) => times(plan.weights[n], means[id])));
  return over(points, total(plan.weights));
}

/** Wilson's interval for a share, to six places. */
export function wilson(right, number) {
  const [share, square] = [right / number, Z * Z];
  const centre = (share + square / (2 * number)) / (1 + square / number);
  const spread = Math.sqrt((share * (1 - share)) / number + square / (4 * number ** 2));
  const half = (Z * spread) / (1 + square / number);
  return [right === 0 ? 0 : round6(centre - half), right === number ? 1 : round6(centre + half)];
}

/** Wilson's where each episode is right or wrong; other bounds as stated, and a line says so. */
function intervalOf(run, name, score, { score_intervals: stated }) {
  const { method, low, high } = stated[name];
  const at = run.plan.ids.indexOf(name);
  const values = at < 0 ? [] : run.ran.map((row) => row.counted[at]).filter(isScore);
  const isShare = values.length > 1 && !run.isClustered && !run.plan.people.has(name)
    && values.every((one) => one === 0n || one === NANO);
  if (score !== null && isShare) {
    const ends = wilson(values.filter((one) => one === NANO).length, values.length);
    // Floating point may differ in its last place between machines.
    const isNear = typeof low === "number" && typeof high === "number"
      && Math.abs(low - ends[0]) <= 2e-6 && Math.abs(high - ends[1]) <= 2e-6;
    const [from, to] = isNear ? [low, high] : ends;
    return { method: "wilson", low: from, high: to, level: 0.95 };
  }
  if (score === null) return { method: "undefined", low: null, high: null, level: 0.95 };
  const isOpen = method === "undefined" && low === null && high === null;
  const isOrdered = typeof low === "number" && 0 <= low && low <= high && high <= 1;
  expect(isOpen || (isOrdered && !["wilson", "undefined"].includes(method)),
    `score_intervals/${name}: expected bounds from 0 to 1, and a method for them`);
  return { method, low, high, level: 0.95 };
}

/** Scores of train part and holdout; whether they are far apart: the line `intervals`. */
function holdoutOf({ plan, ran }, stated) {
  const [train, holdout] = [false, true].map((isHeld) => {
    const part = ran.filter((row) => row.holdout === isHeld);
    const means = perCriterion(plan, (id, n) => {
      const values = part.map((row) => row.counted[n]).filter(isScore);
      return ratio(sum(values), BigInt(values.length) * NANO);
    });
    return {
      episodes: part.length,
      scores: publishedScores(plan, means),
      composite_score: published(weighted(plan, means)),
    };
  });
  return { train, holdout, gap: stated.gap };
}

const perCriterion = (plan, valueOf) =>
  Object.fromEntries(plan.ids.map((id, n) => [id, valueOf(id, n)]));
const publishedScores = (plan, means) => perCriterion(plan, (id) => published(means[id]));

/** The members of scores/aggregate.json; those of STATED_PARTS are as they stand there. */
async function aggregateOf(bundle) {
  const run = await runOf(bundle);
  const { plan, outcomes, statuses } = run;
  const stated = bundle.aggregate;
  const scores = meansOf(run, ["missing"]);
  const composite = weighted(plan, scores);
  const gaps = ["missing", "excluded", "declined", "unscored", "not_run"];
  const [worst, best] = [meansOf(run, gaps, 0), meansOf(run, gaps, 1)];
  const within = (low, high) =>
    (low === null ? null : { low: published(low), high: published(high) });
  return {
    scores: publishedScores(plan, scores),
    composite_score: published(composite),
    score_counts: criterionCounts(run),
    episode_counts: {
      ...pick(statuses, ["timeout", "error", "refused"]),
      ...pick(outcomes, ["scored", "unscored", "not_run"]), total: run.lines.length,
    },
    coverage: published(ratio(BigInt(outcomes.scored), BigInt(run.ran.length - outcomes.excluded))),
    refusal_rate: published(ratio(BigInt(outcomes.excluded), BigInt(run.ran.length))),
    score_intervals: {
      ...perCriterion(plan, (id) => intervalOf(run, id, scores[id], stated)),
      [COMPOSITE]: intervalOf(run, COMPOSITE, composite, stated),
    },
    holdout_scores: plan.split.n ? holdoutOf(run, stated.holdout_scores) : null,
    answered_only: publishedScores(plan, meansOf(run, [])),
    refusals_as_zero: publishedScores(plan, meansOf(run, ["missing", "excluded"])),
    worst_case_bounds: {
      ...perCriterion(plan, (id) => within(worst[id], best[id])),
      [COMPOSITE]: within(weighted(plan, worst), weighted(plan, best)),
    },
    calibration: stated.calibration,
    human_scores: hasStep(bundle, (step) => step.type === "hitl_rubric")
      ? stated.human_scores : null, // the line `human-scores` is about it
    ...(bundle.repeats > 1 ? { repeats: stated.repeats } : {}),
    ...(hasStep(bundle, (step) => step.input_spec?.in_aggregate === true)
      ? { computed: stated.computed } : {}), // the line `resolution` is about it
  };
}
const hasStep = ({ template }, holds) => template.resolution_programme.some(holds);
const WITH_PEOPLE = ["scores", "composite_score", "score_intervals", "answered_only",
  "refusals_as_zero", "worst_case_bounds"];

const criterionCounts = ({ plan, verdicts }) => perCriterion(plan, (id) =>
  pick(verdicts[id], ["scored", "missing", "not_applicable", "declined", "unscored"]));

async function checkOutcomes(bundle) {
  const run = await runOf(bundle);
  const stated = bundle.values("scores/per_episode.jsonl");
  run.lines.forEach((line, at) => same(`episode ${line.seq}`, line.outcome, stated[at].outcome));
  expect(run.outcomes.scored, "no episode was scored");
}

async function checkScores(bundle) {
  const stated = bundle.values("scores/per_episode.jsonl");
  for (const [at, line] of (await runOf(bundle)).lines.entries())
    same(`scores/per_episode.jsonl, line ${line.seq}`, line, stated[at]);
  if (bundle.repeats > 1) throw new Unsettled("whether a score is the mean of its repeats");
  return "no scorer is run: each score is taken as its line states it";
}

async function checkAggregate(bundle) {
  const { results_hash: _, ...stated } = bundle.aggregate;
  const expected = await aggregateOf(bundle);
  const { people } = planOf(bundle);
  if (people.size) Object.assign(expected, pick(stated, WITH_PEOPLE));
  same("scores/aggregate.json", expected, stated);
  if (people.size) throw new Unsettled("people have a share in these scores: see human-scores");
}

async function checkResultsHash(bundle) {
  const { results_hash: stated, score_intervals: _, ...kept } = bundle.aggregate;
  const raw = bundle.raw("scores/per_episode.jsonl");
  const hash = await sha256(joined(raw, bytesOf(canonical(kept))));
  same("scores/aggregate.json/results_hash", hash, stated);
  same("certificate.json/results_hash", hash, bundle.certificate.results_hash);
}

// ---- 6 The tier (docs/contract/evidence.md §10) ----

/** From facts that were counted here: a tier that is only stated is not earned. */
async function checkTier(bundle) {
  const stated = bundle.json("tier.json");
  const { history } = stated;
  same("tier.json/history", ["attestations", "disputes", "runs", "signals", "telemetry"],
    Object.keys(history).sort());
  expect(Object.values(history).every(Array.isArray), "tier.json/history: expected lists");
  const facts = await factsOf(bundle);
  const unmet = unmetForBacktested(facts, history);
  // What is missing for PROVEN rests on the history of other runs: without one, all of it is.
  const withoutHistory = [
    ["runs-below-3", unmet.length ? "0" : "1"], ["runs-span-below-90-days", "0:00:00"],
    ["telemetry-missing", "0"], ["attestation-missing", "0"], ["behavioural-signal-missing", "0"],
  ];
  const forProven = stated.assessment.unmet.filter((one) => one.tier === "PROVEN");
  const above = hasHistory(history) ? forProven.map((one) => [one.code, one.seen]) : withoutHistory;
  const tier = unmet.length ? "UNVERIFIED" : above.length ? "BACKTESTED" : "PROVEN";
  const days = { UNVERIFIED: null, BACKTESTED: 90n, PROVEN: 180n }[tier];
  const listed = (of, list) => list.map(([code, seen]) => ({ code, seen, tier: of }));
  const assessment = {
    tier,
    unmet: [...listed("BACKTESTED", unmet), ...listed("PROVEN", above)],
    caps: (unmet.length ? unmet : above).map(([code]) => code),
    expires_at: days === null ? null : writtenTime(moment(bundle.trail.at(-1).at) + days * DAY),
  };
  same("tier.json", { facts, history, assessment }, stated);
  if (tier === "PROVEN") throw new Unsettled("PROVEN rests on the history of other runs");
  if (planOf(bundle).people.size) throw new Unsettled("people have a share: see human-scores");
  const open = measuresThatDecide(bundle).filter((id) => qualified(bundle).includes(id));
  if (open.length) throw new Unsettled(`whether the measure of ${open.join(", ")} qualifies`);
}

const hasHistory = ({ runs, telemetry, attestations, signals }) =>
  [runs, telemetry, attestations, signals].some((list) => list.length > 0);

/** Code and what was seen of each requirement of BACKTESTED that is not met, in order. */
function unmetForBacktested(facts, history) {
  const unmet = [];
  const add = (isUnmet, code, seen) => {
    if (isUnmet) unmet.push([code, `${seen}`]);
  };
  const { replay_count: scored, distinct_inputs: distinct } = facts;
  const [n, d] = facts.max_refusal_rate.split("/").map(BigInt);
  const isAboveMost = (count, of) => less(times(ratio(n, d ?? 1n), whole(of)), whole(count));
  const allowed = `allowed ${facts.max_refusal_rate}`;
  add(scored === 0, "nothing-scored", 0);
  add(scored < 50, "replays-below-50", scored);
  add(distinct < Math.min(50, scored), "distinct-inputs-below-50", distinct);
  // Where episodes are asked more than once, of answers: one success would hide many failures.
  const { asked, failed, refused } = facts.answers
    ?? { asked: facts.run, failed: facts.failures, refused: facts.refusals };
  add(5 * failed > asked, "failure-rate-above-20", `${failed}/${asked}`);
  add(isAboveMost(refused, asked), "refusal-rate-above-max", `${refused}/${asked}, ${allowed}`);
  for (const id of sorted(Object.keys(facts.criterion_counts))) {
    const counts = facts.criterion_counts[id];
    const number = counts.scored + counts.missing;
    const applicable = number + counts.declined + counts.unscored;
    const own = facts.criterion_distinct_inputs[id];
    add(number === 0, `criterion-unscored:${id}`, 0);
    add(number < 30, `criterion-n-below-30:${id}`, number);
    add(own < Math.min(30, number), `distinct-per-criterion-below-30:${id}`, own);
    add(counts.unscored, `unscored-answers:${id}`, counts.unscored);
    add(isAboveMost(counts.declined, applicable), `declined-above-max:${id}`,
      `${counts.declined}/${applicable}, ${allowed}`);
  }
  for (const id of sorted(Object.keys(facts.unqualified_measures)))
    add(true, `measure-unqualified:${id}`, facts.unqualified_measures[id]);
  const unpinned = facts.construct_version === null ? ["construct_version"] : [];
  for (const name of sorted(new Set([...unpinned, ...facts.missing_pins])))
    add(true, `pin-missing:${name}`, "absent");
  add(facts.version_mismatches, "version-mismatch", facts.version_mismatches);
  add(facts.determinism_differences, "answers-not-deterministic", facts.determinism_differences);
  const isMock = facts.rehearsal || facts.adapter_pin.split("@")[0] === "mock";
  add(isMock, "mock-adapter", facts.adapter_pin);
  add(!facts.scorers_committed, "scorers-not-committed", "no");
  add(!facts.bundle_complete, "bundle-incomplete", "no");
  add(!facts.commitment_verifiable, "commitment-not-verifiable", "no");
  const open = history.disputes.filter((one) => one.status === "admitted");
  add(open.length, "dispute-open", sorted(open.map((one) => one.dispute_id)).join(", "));
  const found = unmet.map(([code]) => code);
  for (const code of sorted(new Set(facts.extra_caps)))
    add(!found.includes(code), code, "found with the evidence");
  return unmet;
}

async function factsOf(bundle) {
  const run = await runOf(bundle);
  const { plan, outcomes, answers } = run;
  const { template, config, underTest } = bundle;
  const pins = template.version_pins;
  const records = countedRecords(bundle, run);
  const calls = records.flatMap((record) => record.calls);
  const adapter = calls.findLast((call) => call.construct_id === underTest)?.adapter ?? "";
  const version = pins.constructs[underTest] ?? null;
  const named = {
    construct_version: version,
    dataset_hash: template.dataset_hashes[config.replay_dataset_id],
    scorer_version: pins.scorer_version,
  };
  const inputs = run.lines.filter((line) => line.outcome !== "not_run").map((line) => [line,
    canonical(bundle.playsTurns ? bundle.dataset[line.seq - 1].input_data
      : bundle.records.get(line.seq).sent)]);
  const distinct = (holds) =>
    new Set(inputs.filter(([line]) => holds(line)).map(([, input]) => input)).size;
  const { n, d } = plan.mostRefused;
  const facts = {
    replay_count: outcomes.scored,
    failures: outcomes.missing,
    refusals: outcomes.excluded,
    run: run.ran.length,
    total: run.lines.length,
    max_refusal_rate: d === 1n ? `${n}` : `${n}/${d}`,
    criterion_counts: criterionCounts(run),
    construct_id: underTest,
    construct_version: version,
    adapter_pin: adapter,
    rehearsal: calls.some((call) => call.adapter.startsWith("mock@")),
    distinct_inputs: distinct((line) => line.outcome === "scored"),
    criterion_distinct_inputs: perCriterion(plan, (id) =>
      distinct((line) => line.scores[id] !== null)),
    unqualified_measures: unqualifiedMeasures(bundle),
    missing_pins: Object.keys(named).filter((name) => !named[name]),
    version_mismatches: records.reduce((all, record) => all + record.mismatches, 0),
    determinism_differences: records.filter((record) => record.differs).length,
    scorers_committed: Object.keys(template.scoring?.criteria_scorers ?? {}).length > 0,
    bundle_complete: REQUIRED.every((path) => bundle.files.has(path)),
    commitment_verifiable: bundle.receipt.commitment_hash === await bundle.commitmentHash,
    extra_caps: extraCaps(bundle, run, adapter),
  };
  if (bundle.repeats > 1) {
    const failed = answers.timeout + answers.error;
    const asked = answers.success + failed + answers.refused;
    facts.answers = { asked, failed, refused: answers.refused };
  }
  return facts;
}

const countedRecords = (bundle, run) => run.lines
  .filter((line) => line.outcome !== "not_run").map((line) => bundle.records.get(line.seq));

/** Criteria with a weight that people have no whole share of, and whose scorer is not exact. */
function measuresThatDecide(bundle) {
  const plan = planOf(bundle);
  return plan.ids.filter((id, n) => plan.weights[n].n && !isByPeople(plan, id)
    && kindOf(scorerOf(bundle, id)[0], bundle.receipt.scorer_kinds) !== "exact");
}
const isByPeople = (plan, id) => published(plan.people.get(id) ?? null) === 1;

/** Criteria whose measure the template calls qualified; whether it is, is not computed here. */
function qualified({ template }) {
  return template.schema_version === "2.2.0"
    ? Object.keys(template.scoring?.qualifications ?? {}) : [];
}

/** Whether a step counts what judges said of claims of known truth, which corrects scores. */
const countsControls = ({ template }) => template.resolution_programme.some(
  (step) => step.input_spec?.computation === "judge_controls");

function unqualifiedMeasures(bundle) {
  const stated = bundle.json("tier.json").facts.unqualified_measures;
  const found = {};
  for (const id of measuresThatDecide(bundle)) {
    const [scorer] = scorerOf(bundle, id);
    if (!qualified(bundle).includes(id))
      found[id] = `${scorer} is ${kindOf(scorer, bundle.receipt.scorer_kinds)}`;
    else if (Object.hasOwn(stated, id)) found[id] = stated[id];
  }
  return found;
}

/** Codes that cap the tier and are found with the evidence. */
function extraCaps(bundle, run, adapter) {
  const { plan, outcomes } = run;
  const closed = isolationOf(bundle);
  const caps = [];
  const add = (holds, code) => {
    if (holds) caps.push(code);
  };
  add(outcomes.not_run > 0, "episodes-not-run");
  add(bundle.goldIsUnpinned, "gold-unpinned");
  add(Object.hasOwn(bundle.config, "withheld"), "episodes-withheld");
  add(adapter.startsWith("plain_"), "version-unreported");
  add(!(closed.files && closed.processes), "construct-not-isolated");
  add(adapterTypes(bundle).includes("imported"), "evidence:imported");
  for (const id of sorted(plan.ids))
    add(plan.weights[plan.ids.indexOf(id)].n && scorerOf(bundle, id)[0] === "harness_score"
      && !isByPeople(plan, id), `scores-by-harness:${id}`);
  const missing = Object.values(bundle.aggregate.human_scores ?? {})
    .filter((one) => one.share !== null && one.human === null)
    .map((one) => `human-part-missing:${one.criterion_id}`);
  caps.push(...sorted(new Set(missing)));
  const guards = missedSteps(bundle).filter((step) => step.isGuard);
  caps.push(...sorted(guards.map(({ name, ended }) => `step-${ended}:${name}`)));
  return caps;
}

/** Each step that failed or was skipped: its name, how it ended, whether it guards the evidence. */
function missedSteps(bundle) {
  const { steps } = bundle.json("resolution.json");
  return bundle.template.resolution_programme.map((step, at) => {
    const isComputation = step.type === "deterministic_computation";
    const isChain = isComputation && step.input_spec?.computation === "provenance_chain";
    let ended = steps[at].status;
    // A provenance chain that found its log not intact counts as failed.
    if (isChain && ended === "completed" && steps[at].result.output.intact !== true)
      ended = "failed";
    const hasForm = isComputation && Object.keys(step.output_spec ?? {}).length > 0;
    return { name: step.step_id, ended, isGuard: isChain || hasForm };
  }).filter(({ ended }) => ended !== "completed");
}

const CLOSED = ["files", "processes", "network"];
const WEAKEST_FIRST = ["none", "other-user", "landlock", "namespaces", "remote"];

function requireIsolation(value, where) {
  expect(isObject(value), `${where}: expected what was closed`);
  same(where, ["by", ...CLOSED].sort(), Object.keys(value).sort());
  const isForm = CLOSED.every((name) => typeof value[name] === "boolean");
  expect(isForm && WEAKEST_FIRST.includes(value.by), `${where}: expected what was closed`);
}

function adapterTypes({ config }) {
  const endpoints = Object.values(config.construct_endpoints ?? {});
  return [config, ...endpoints].map((one) => one.adapter_type);
}

/** What was closed to every construct of an episode at the start of the run. */
function isolationOf(bundle) {
  // The program that asked had the answers.
  if (adapterTypes(bundle).some((type) => type === "imported" || type === "harness"))
    return { files: false, processes: false, network: false, by: "none" };
  const found = bundle.chain.map((name) => bundle.activated.isolation[name]);
  for (const one of found) requireIsolation(one, "activated/isolation");
  const closed = {};
  for (const name of CLOSED) closed[name] = found.every((one) => one[name]);
  const weakest = Math.min(...found.map((one) => WEAKEST_FIRST.indexOf(one.by)));
  return { ...closed, by: WEAKEST_FIRST[weakest] };
}

// ---- 7 The certificate (docs/certificate.md, docs/contract/evidence.md §4) ----

async function checkCertificateFields(bundle) {
  const { template, aggregate, receipt, config, trail, underTest } = bundle;
  const pins = template.version_pins;
  const { certificate } = bundle;
  const sealed = bundle.only("sealed");
  const run = await runOf(bundle);
  const { assessment } = bundle.json("tier.json");
  const chain = config.construct_chain ?? [];
  // Every member, and none more: what is not computed again must not be on a certificate.
  const expected = {
    ...pick(aggregate, ["scores", "composite_score", "score_intervals", "score_counts",
      "holdout_scores", "episode_counts", "coverage", "refusal_rate", "results_hash"]),
    ...pick(sealed, ["certificate_id", "issuer"]),
    ...pick(receipt, ["theatre_id", "environment"]),
    schema_version: "1.2.0", template_id: template.theatre_id, construct_id: underTest,
    execution_path: template.execution_path, ground_truth_source: config.ground_truth_source,
    criteria: { criteria_human: "", weights: {}, ...template.criteria },
    precision: aggregate.scores.precision ?? null, recall: aggregate.scores.recall ?? null,
    reply_accuracy: aggregate.scores.reply_accuracy ?? null,
    brier_score: aggregate.calibration?.brier_score ?? null,
    ece: aggregate.calibration?.ece?.value ?? null,
    replay_count: aggregate.episode_counts.scored,
    commitment_hash: await bundle.commitmentHash, coin_sha256: await sha256(bundle.coin),
    episode_root: await episodeRoot(bundle), audit_head: trail.at(-1).entry_hash,
    evidence_bundle_hash: await sha256(bundle.raw("SHA256SUMS")),
    dataset_hash: template.dataset_hashes[config.replay_dataset_id] ?? null,
    ground_truth_hash: await sha256(bytesOf(canonical(template.dataset_hashes))),
    construct_version: pins.constructs[underTest], version_source: versionSource(bundle, run),
    construct_chain_versions: chain.length ? pick(pins.constructs, chain) : null,
    isolation: isolationOf(bundle), scorer_version: pins.scorer_version,
    methodology_version: pins.methodology_version ?? "1.0.0",
    verification_tier: assessment.tier, caps: assessment.caps, findings: findingsOf(bundle, run),
    data_audit: bundle.json("scores/data_audit.json"),
    baselines: bundle.json("scores/baselines.json"), expires_at: assessment.expires_at,
    issued_at: trail.at(-1).at, theatre_resolved_at: trail.at(-1).at,
    theatre_committed_at: receipt.committed_at,
    repeats: repeatsOnCertificate(aggregate), owner: null,
    // As stated; the lines `usage` and `qualifications` are about them.
    usage: certificate.usage,
    qualification: qualified(bundle).length ? certificate.qualification : null,
    corrected_scores: qualified(bundle).length || countsControls(bundle)
      ? certificate.corrected_scores : null,
  };
  same("certificate.json", expected, certificate);
}

/** The aggregate's, with what holds for items like these from its intervals. */
function repeatsOnCertificate({ repeats, score_intervals: like }) {
  if (repeats === undefined) return null;
  const criteria = {};
  for (const [id, one] of Object.entries(repeats.criteria))
    criteria[id] = { ...one, items_like_these: like[id] };
  const composite = { ...repeats.composite_score, items_like_these: like[COMPOSITE] };
  return { ...repeats, criteria, composite_score: composite };
}

/** The root over the salted lines of all episodes. */
async function episodeRoot(bundle) {
  const questions = bundle.lines("ground_truth/dataset.jsonl");
  const results = bundle.lines("scores/per_episode.jsonl");
  const leaves = [];
  for (const [at, [question, { episode_id: id }]] of questions.entries()) {
    const record = bundle.records.get(at + 1);
    const label = canonical(bundle.gold.get(id) ?? null);
    const line = joined(
      bytesOf(`{"dataset_line":${canonical(textOf(question))},"label":${label},"record":`),
      record ? record.raw.subarray(0, -1) : bytesOf("null"),
      bytesOf(',"result":'), results[at][0], bytesOf("}"),
    );
    leaves.push(await digest(joined([0], await bundle.draw("salt", id), line)));
  }
  return merkleRoot(leaves);
}

function versionSource(bundle, run) {
  const calls = countedRecords(bundle, run).flatMap((record) => record.calls);
  const found = calls.map((call) => call.version_source);
  return ["claimed", "declared"].find((one) => found.includes(one)) ?? "computed";
}

/** What a reader must know and no tier rule looks at. */
function findingsOf(bundle, run) {
  const { activated, aggregate, certificate, config, policy } = bundle;
  const audit = bundle.json("scores/data_audit.json");
  const baselines = bundle.json("scores/baselines.json");
  const source = versionSource(bundle, run);
  const [before, began] = [activated.previous_environment, canonical(activated.environment)];
  const isOther = began !== canonical(bundle.receipt.environment)
    || (before !== null && began !== canonical(before));
  const hasDiffered = countedRecords(bundle, run).some((record) => record.differs);
  const found = [];
  const add = (holds, code) => {
    if (holds) found.push(code);
  };
  add(source !== "computed", `version-${source}`);
  add(config.harness, `harness:${config.harness}`);
  add(!isolationOf(bundle).network, "network-open");
  add(isOther, "environment-changed");
  add(bundle.repeats === 1 && (!policy.deterministic_sample || hasDiffered),
    "within-item-variance-unknown");
  add(audit.answers_in_inputs, "answers-in-inputs");
  add(audit.near_duplicates, "near-duplicates");
  for (const { name, ended, isGuard } of missedSteps(bundle))
    add(ended === "failed" && !isGuard, `step-failed:${name}`);
  for (const step of bundle.json("resolution.json").steps) {
    const codes = step.result.output?.findings;
    if (step.type === "deterministic_computation" && Array.isArray(codes))
      for (const code of codes)
        add(typeof code === "string" && code.startsWith("controls-"), code);
  }
  for (const [id, one] of Object.entries(audit.criteria))
    add(one.expectations === 1, `one-expectation:${id}`);
  for (const [id, one] of Object.entries(baselines.criteria)) {
    const limit = aggregate.score_intervals[id].low ?? aggregate.scores[id];
    const trivial = [one.empty, one.copied, one.most_frequent, one.other_episode];
    add(limit !== null && trivial.some((part) => part !== null && part.score >= limit),
      `baseline-meets-interval:${id}`);
  }
  // Whose labels a measure was held against, and whether its run bears it out, are as stated.
  for (const id of qualified(bundle))
    for (const code of ["labels-by-models", "controls-contradict-qualification"])
      add(certificate.findings.includes(`${code}:${id}`), `${code}:${id}`);
  return sorted(found);
}

// ---- 8 Signature and log (docs/contract/trust.md; DSSE, Sigstore bundle, C2SP notes) ----

const PAYLOAD_TYPE = "application/vnd.in-toto+json";

/** The issuer's keys and log, from his trust.json. */
const trustOf = (bundle) => bundle.once("trust", () => parseTrust(bundle.trust));

function proofFile(bundle, name) {
  const bytes = bundle.files.get(`proofs/${name}`);
  if (!bytes) throw new Unsettled(`no proofs/${name}`);
  return bytes;
}

/** What another line found; where it found none, this line can say nothing. */
async function restsOn(what, made) {
  try {
    return await made;
  } catch {
    throw new Unsettled(`rests on ${what}`);
  }
}

/** The statement that one trusted key has signed, in its one spelling, about this certificate. */
const signatureOf = (bundle) => bundle.once("signature", async () => {
  if (bundle.trust) await trustOf(bundle); // a broken trust.json trusts no one
  const data = proofFile(bundle, "certificate.sigstore.json");
  if (!bundle.trust) throw new Unsettled("give the issuer's trust.json to verify it");
  const { keys, issuer } = await trustOf(bundle);
  expect(data.length <= 1024 * 1024, "expected at most 1 MiB");
  const { dsseEnvelope: envelope } = parseJson(data, "certificate.sigstore.json");
  expect(envelope.signatures.length === 1, "expected one signature");
  const [{ keyid: kid, sig }] = envelope.signatures;
  const signatures = [{ keyid: kid, sig }];
  const spelling = canonical({
    mediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
    verificationMaterial: { publicKey: { hint: kid } },
    dsseEnvelope: { payload: envelope.payload, payloadType: PAYLOAD_TYPE, signatures },
  });
  expect(sameBytes(data, bytesOf(`${spelling}\n`)),
    "expected a Sigstore bundle of these members in canonical JSON");
  if (!keys.has(kid))
    throw new Defect("expected a signature by a trusted key", [...keys.keys()].join(" or "), kid);
  const payload = unbase64(envelope.payload);
  const frame = `DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${payload.length} `;
  const message = joined(bytesOf(frame), payload);
  expect(await signedByP256(keys.get(kid).der, unbase64(sig), message),
    `expected a signature by ${kid}, got another`);
  const statement = parseJson(payload, "the statement");
  const { certificate } = bundle;
  const { commitment_log: log } = statement.predicate;
  expect(log === null || isObject(log), "expected a statement that names a log, or none");
  const expected = {
    _type: "https://in-toto.io/Statement/v1",
    subject: [{ name: "SHA256SUMS", digest: { sha256: certificate.evidence_bundle_hash } }],
    predicateType: "urn:echelon:attestation:calibration-certificate:v1",
    predicate: { certificate, commitment_log: log },
  };
  same("the statement", expected, statement);
  expect(sameBytes(payload, bytesOf(canonical(statement))), "expected a canonical statement");
  const from = bundle.trustFrom ? `, by ${bundle.trustFrom}: who trusts that trusts its maker` : "";
  return { kid, payload, statement, note: `signed by key ${kid} of ${issuer}${from}` };
});

const commitmentEntry = (bundle) => bundle.once("commitment entry", async () => {
  const data = proofFile(bundle, "commitment.tlog-proof");
  const { certificate, template, policy } = bundle;
  const [checkpoint] = parseNote(parseProof(data).note);
  // A run without the value that the log gave may have begun before.
  same("the nonce of the run", await sha256(bytesOf(checkpoint)), hex(bundle.nonce));
  const days = template.schema_version === "2.2.0" ? policy.close_within_days ?? 30 : 30;
  const committed = moment(certificate.theatre_committed_at);
  const entry = {
    ...pick(certificate, ["theatre_id", "construct_id", "construct_version", "template_id",
      "coin_sha256", "commitment_hash"]),
    type: "commitment/v1",
    close_by: writtenTime(committed + BigInt(days) * DAY),
  };
  const entries = [entry];
  if (bundle.files.has("coin.txt")) {
    // A template that is not public: the coin opens the entry.
    const salted = hex(await hmac(bundle.coin, bytesOf(certificate.commitment_hash)));
    entries.push({ ...entry, commitment_hash: salted, salted: true });
  }
  return lookUp(bundle, data, entries);
});

const certificateEntry = (bundle) => bundle.once("certificate entry", async () => {
  const data = proofFile(bundle, "certificate.tlog-proof");
  const { payload } = await restsOn("the signature", signatureOf(bundle));
  const { place } = await restsOn("the commitment's proof", commitmentEntry(bundle));
  const { certificate } = bundle;
  return lookUp(bundle, data, [{
    type: "certificate/v1",
    theatre_id: certificate.theatre_id,
    commitment_index: place,
    statement_sha256: await sha256(payload),
    tier: certificate.verification_tier,
    expires_at: certificate.expires_at,
  }]);
});

/** Where the trusted log has one of these entries. */
async function lookUp(bundle, data, entries) {
  if (!bundle.trust) throw new Unsettled("give the issuer's trust.json to verify it");
  const { log } = await restsOn("a trust.json that can be read", trustOf(bundle));
  const { place, hashes, note } = parseProof(data);
  const [text, signatures] = parseNote(note);
  const [origin, count, root, end] = text.split("\n");
  expect(origin && end === "" && text.split("\n").length === 4 && unbase64(root).length === 32,
    "expected a checkpoint of three lines");
  const size = decimal(count);
  const own = signatures.filter((one) => one.name === log.name && one.id === log.id);
  expect(origin === log.name && own.length > 0,
    `expected a checkpoint of a trusted log, got one of ${origin}`);
  for (const { signature } of own)
    expect(await signedByEd25519(log.key, signature, bytesOf(text)),
      `expected a signature by ${log.name}, got another`);
  for (const entry of entries) {
    const raw = bytesOf(canonical(entry));
    const top = await rootAbove(await digest(joined([0], raw)), place, size, hashes);
    if (raw.length <= 1024 && sameBytes(top, unbase64(root)))
      return { place, origin, size, text, note: `entry ${place} of ${origin}` };
  }
  throw new Defect(`expected a proof of entry ${place} in the tree of ${count}, got another`);
}

async function checkSigner(bundle) {
  const { kid } = await restsOn("the signature", signatureOf(bundle));
  const key = (await trustOf(bundle)).keys.get(kid);
  const at = moment(bundle.certificate.issued_at);
  expect(at >= key.from && (key.until === null || at <= key.until),
    `expected a signature while its key counts, got ${writtenTime(at)}`);
  if (key.revoked !== null) {
    // What no log has could have been signed by a thief at any time.
    const entry = await certificateEntry(bundle).catch(() => null);
    expect(entry && entry.place < key.revoked, `expected a key that is not revoked, got ${kid}`);
  }
  return "at a time that is the issuer's own word";
}

async function checkOrder(bundle) {
  const last = await restsOn("both entries", certificateEntry(bundle));
  const first = await commitmentEntry(bundle);
  const { statement } = await signatureOf(bundle);
  expect(first.place < first.size && first.size <= last.place && last.place < last.size,
    "expected the commitment's checkpoint before the certificate's entry");
  const named = { origin: first.origin, index: first.place, checkpoint: first.text };
  same("the statement's commitment_log", named, statement.predicate.commitment_log);
  return `committed at ${first.place}, certified at ${last.place}`;
}

const P256_HEAD = unhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004");

/** Whom the reader trusts: the issuer's keys and his log, which is one of those of his policy. */
async function parseTrust(bytes) {
  const document = parseJson(bytes, "trust.json");
  const keys = new Map();
  const time = (text) => {
    const [seconds, part = ""] = text.slice(0, -1).split(".");
    expect(text.endsWith("Z") && part.length <= 6, `trust.json: expected a time, got ${text}`);
    return moment(`${seconds}.${part.padEnd(6, "0")}Z`);
  };
  for (const { kid, public_key, valid_from, valid_until, revoked_index } of document.keys) {
    const der = unbase64(public_key);
    const isP256 = der.length === 91 && sameBytes(der.subarray(0, 27), P256_HEAD);
    expect(isP256 && (await sha256(der)) === kid && !keys.has(kid),
      "trust.json: expected P-256 keys in DER, each once, its id its hash");
    expect(revoked_index === null || Number.isInteger(revoked_index),
      "trust.json: expected an index");
    keys.set(kid, {
      der,
      from: time(valid_from),
      until: valid_until === null ? null : time(valid_until),
      revoked: revoked_index,
    });
  }
  const { vkey, origin } = document.log;
  const [name, id, ...rest] = vkey.split("+");
  const material = unbase64(rest.join("+"));
  const named = hex(await digest(joined(bytesOf(`${name}\n`), material))).slice(0, 8);
  expect(material[0] === 1 && material.length === 33 && named === id && origin === name,
    "trust.json: expected the Ed25519 key of a log, and its name");
  const isOfPolicy = document.policy.split("\n").some((line) => {
    const [word, key] = line.split(/[ \t]+/).filter(Boolean);
    return word === "log" && key === vkey;
  });
  expect(isOfPolicy, "trust.json: expected the log in its policy");
  expect(typeof document.issuer === "string", "trust.json: expected an issuer");
  return { issuer: document.issuer, keys, log: { name, id, key: material.subarray(1) } };
}

/** The text of a note, and its signature lines. */
function parseNote(bytes) {
  const text = textOf(bytes);
  expect(bytes.length <= 64 * 1024 && !/[\u0000-\u0009\u000b-\u001f]/.test(text),
    "expected a note of at most 64 KiB without control characters");
  const cut = text.lastIndexOf("\n\n");
  expect(cut >= 0 && text.endsWith("\n"), "expected a text, an empty line and signature lines");
  const lines = text.slice(cut + 2, -1).split("\n").map((line) => {
    const found = /^— ([^\s+]+) (.+)$/.exec(line);
    expect(found, `expected a signature line, got ${line.slice(0, 40)}`);
    const blob = unbase64(found[2]);
    expect(blob.length > 4, "expected a signature behind the id of its key");
    return { name: found[1], id: hex(blob.subarray(0, 4)), signature: blob.subarray(4) };
  });
  return [text.slice(0, cut + 1), lines];
}

/** Place, hashes and checkpoint of a `tlog-proof` file. */
function parseProof(bytes) {
  const cut = bytes.findIndex((byte, at) => byte === 10 && bytes[at + 1] === 10);
  expect(bytes.length <= 256 * 1024 && cut >= 0, "expected a tlog-proof of at most 256 KiB");
  const lines = textOf(bytes.subarray(0, cut)).split("\n");
  expect(lines.shift() === "c2sp.org/tlog-proof@v1", "expected a tlog-proof");
  if (lines[0]?.startsWith("extra ")) unbase64(lines.shift().slice("extra ".length));
  expect(lines[0]?.startsWith("index "), "expected a line with the entry's index");
  const place = decimal(lines.shift().slice("index ".length));
  const hashes = lines.map(unbase64);
  expect(hashes.length <= 63 && hashes.every((one) => one.length === 32),
    "expected at most 63 hashes of 32 bytes");
  return { place, hashes, note: bytes.subarray(cut + 2) };
}

/** The root that a proof leads to from an entry's hash (RFC 9162, 2.1.3.2). */
async function rootAbove(leaf, place, treeSize, hashes) {
  expect(place < treeSize, `expected the index of one of ${treeSize} entries, got ${place}`);
  let [node, last, root] = [place, treeSize - 1, leaf];
  const half = (number) => Math.floor(number / 2); // a shift would cut to 32 bits
  for (const one of hashes) {
    expect(last > 0, "expected fewer hashes in the proof");
    if (node % 2 || node === last) {
      root = await digest(joined([1], one, root));
      while (node && node % 2 === 0) [node, last] = [half(node), half(last)];
    } else root = await digest(joined([1], root, one));
    [node, last] = [half(node), half(last)];
  }
  expect(last === 0, "expected more hashes in the proof");
  return root;
}

/**
 * r and s, 32 bytes each, of a P-256 signature in DER, as WebCrypto takes them. Minimal DER alone:
 * a second spelling of one signature would be a second document that is signed.
 */
export function rawSignature(der) {
  let at = 2;
  let isMinimal = der.length >= 8 && der.length <= 72 && der[0] === 0x30
    && der[1] === der.length - 2;
  const number = () => {
    const length = der[at + 1];
    const bytes = der.subarray(at + 2, at + 2 + length);
    const digits = bytes[0] === 0 ? bytes.subarray(1) : bytes; // one zero keeps it positive
    isMinimal &&= der[at] === 0x02 && bytes.length === length && length > 0 && bytes[0] < 0x80
      && (bytes[0] !== 0 || digits[0] >= 0x80) && digits.length <= 32;
    at += 2 + length;
    return isMinimal ? joined(new Uint8Array(32 - digits.length), digits) : [];
  };
  const both = joined(number(), number());
  expect(isMinimal && at === der.length, "expected a signature in minimal DER");
  return both;
}

async function signedByP256(spki, signature, message) {
  const curve = { name: "ECDSA", namedCurve: "P-256" };
  const key = await subtle.importKey("spki", spki, curve, false, ["verify"]);
  const raw = rawSignature(signature);
  return subtle.verify({ name: "ECDSA", hash: "SHA-256" }, key, raw, message);
}

async function signedByEd25519(publicKey, signature, message) {
  const key = await subtle.importKey("raw", publicKey, { name: "Ed25519" }, false, ["verify"])
    .catch(() => null);
  if (!key) throw new Unsettled("cannot check here: this browser has no Ed25519");
  return subtle.verify({ name: "Ed25519" }, key, signature, message);
}

/** A size or an index; past 2^53 - 1 no double could hold it, and no log is so large. */
function decimal(text) {
  expect(/^(0|[1-9][0-9]{0,15})$/.test(text) && Number.isSafeInteger(Number(text)),
    `expected a decimal number, got ${text.slice(0, 40)}`);
  return Number(text);
}

// ---- 9 The bundle as it is read (docs/contract/evidence.md §4 to §7) ----

/**
 * A step is made once; where it raises, every check that rests on it raises the same. So no defect
 * hides behind another.
 */
class Bundle {
  #made = new Map();
  constructor(files, options) {
    Object.assign(this, { files, ...options });
    this.paths = sorted([...files.keys()].filter((path) => !PROOFS.includes(path)));
  }
  once(name, make) {
    if (!this.#made.has(name)) {
      try {
        this.#made.set(name, { value: make() });
      } catch (error) {
        this.#made.set(name, { error });
      }
    }
    const { value, error } = this.#made.get(name);
    if (error) throw error;
    return value;
  }
  raw(path) {
    const bytes = this.files.get(path);
    expect(bytes !== undefined, `${path}: expected a file, got nothing`);
    return bytes;
  }
  json(path) {
    return this.once(`json ${path}`, () => parseJson(this.raw(path), path));
  }
  /** [bytes, value] of each line. */
  lines(path) {
    return this.once(`lines ${path}`, () => {
      const raw = this.raw(path);
      expect(!raw.length || raw.at(-1) === 10, `${path}: expected a line feed at the end`);
      const found = [];
      for (let at = 0, end; at < raw.length; at = end + 1) {
        end = raw.indexOf(10, at);
        const line = raw.subarray(at, end);
        found.push([line, parseJson(line, `${path}, line ${found.length + 1}`)]);
      }
      return found;
    });
  }
  values(path) {
    return this.lines(path).map(([, value]) => value);
  }
  get template() { return this.json("template.json"); }
  get receipt() { return this.json("commitment_receipt.json"); }
  get certificate() { return this.json("certificate.json"); }
  get aggregate() { return this.json("scores/aggregate.json"); }
  get trail() { return this.values("audit_trail.jsonl"); }
  get config() { return this.template.product_theatre_config; }
  get underTest() { return this.config.construct_under_test; }
  get policy() { return this.template.execution_policy ?? {}; }
  get repeats() { return this.policy.repeats ?? 1; }
  get playsTurns() { return (this.config.episode_runner ?? "single_call") !== "single_call"; }
  get activated() { return this.only("activated"); }
  /** Without all of its episodes: its template withholds some. */
  get isPublished() { return this.files.has("episodes.jsonl"); }
  details(event) {
    return this.trail.filter((one) => one.event_type === event).map((one) => one.detail);
  }
  only(event) {
    const found = this.details(event);
    expect(found.length === 1, `audit_trail.jsonl: expected one ${event}, got ${found.length}`);
    return found[0];
  }
  /** The constructs that an episode goes through. */
  get chain() {
    const steps = this.template.resolution_programme.filter(
      (step) => step.type === "construct_invocation").map((step) => step.construct_id);
    return this.config.construct_chain ?? [...new Set(steps)];
  }
  get commitmentHash() {
    return this.once("commitment hash", () => {
      const { template } = this;
      const { dataset_hashes, version_pins } = template;
      return sha256(bytesOf(canonical({ dataset_hashes, template, version_pins })));
    });
  }
  get coin() {
    const text = textOf(this.raw("coin.txt"));
    expect(/^[0-9a-f]{64}\n$/.test(text), "coin.txt: expected 64 hex digits and a line feed");
    return unhex(text.trim());
  }
  get nonce() { return unhex(this.activated.run_nonce ?? ""); }
  /** What the coin draws for a purpose (docs/contract/earned.md §4). */
  async draw(purpose, ...parts) {
    const key = await this.once("draws", () => hmac(this.coin, this.nonce));
    return hmac(key, bytesOf(canonical([purpose, await this.commitmentHash, ...parts])));
  }
  get dataset() {
    return this.once("dataset", () => {
      const episodes = this.values("ground_truth/dataset.jsonl");
      const ids = episodes.map((one) => one.episode_id);
      const isNew = new Set(ids).size === ids.length && ids.every((id) => typeof id === "string");
      expect(ids.length && isNew, "ground_truth/dataset.jsonl: expected new episode_ids");
      return episodes;
    });
  }
  get hasGold() { return (this.config.gold_label_set ?? null) !== null; }
  get goldIsUnpinned() {
    const name = this.config.gold_label_dataset_id ?? "gold_labels";
    return this.hasGold && !Object.hasOwn(this.template.dataset_hashes, name);
  }
  /** File below ground_truth/ → the dataset that it is. */
  get groundTruth() {
    const files = { "dataset.jsonl": this.config.replay_dataset_id };
    if (this.hasGold && !this.goldIsUnpinned)
      files["gold_labels.jsonl"] = this.config.gold_label_dataset_id ?? "gold_labels";
    for (const name of Object.keys(this.config.dataset_paths ?? {})) files[`${name}.jsonl`] = name;
    return files;
  }
  get gold() {
    return this.once("gold", () => {
      const path = "ground_truth/gold_labels.jsonl";
      const lines = this.files.has(path) ? this.values(path) : [];
      return new Map(lines.map((line) => [line.episode_id, line.label]));
    });
  }
  get rubrics() {
    const entries = this.template.hitl_steps ?? [];
    const found = new Map(entries.map((entry) => [entry.step_id, entry]));
    expect(found.size === entries.length, "template.json: a rubric for one step_id twice");
    return found;
  }
  /** seq → what the record of an episode says, as far as results depend on it. */
  get records() {
    return this.once("records", () => {
      const found = new Map();
      for (const path of this.paths.filter((one) => one.startsWith("invocations/")))
        for (const [at, [raw, record]] of this.lines(path).entries()) {
          const [wanted, line] = placeOf(record.seq, this.dataset.length);
          // In its place, so that no episode is there twice with the better of two answers.
          const isInPlace = path === wanted && line === at + 1 && record.seq <= this.dataset.length;
          expect(isInPlace, `${path}: a record of another episode`);
          found.set(record.seq, { raw: joined(raw, [10]), ...readRecord(record, this) });
        }
      return found;
    });
  }
}

const PER_PART = 1000;

/** The file, and the line in it, of the record of an episode. */
function placeOf(seq, episodes) {
  if (episodes <= PER_PART) return [`invocations/episode_${String(seq).padStart(6, "0")}.json`, 1];
  const part = Math.floor((seq - 1) / PER_PART) + 1;
  return [`invocations/part-${String(part).padStart(5, "0")}.jsonl`, ((seq - 1) % PER_PART) + 1];
}

/** An episode's status is that of its first success, else of its first failure, else refusal. */
function readRecord(record, { playsTurns, repeats }) {
  const { calls } = record;
  const endOf = (call) => call.attempts.at(-1);
  const numbers = [...new Set(calls.map((call) => call.repeat))];
  const lasts = numbers.map((number) => calls.findLast((call) => call.repeat === number));
  const statuses = lasts.map((call) => endOf(call).response.status);
  const isKnown = statuses.every((status) => STATUSES.includes(status));
  const isComplete = numbers.length === repeats && numbers.every((number, at) => number === at);
  expect(isKnown && (repeats === 1 || isComplete),
    `record ${record.seq}: expected a status of each repeat`);
  const success = statuses.indexOf("success");
  const failure = statuses.findIndex((status) => status === "timeout" || status === "error");
  const deciding = lasts[success >= 0 ? success : Math.max(failure, 0)];
  const { response, reason } = endOf(deciding);
  const [first, second] = [0, 1].map((n) => calls.filter((call) => call.repeat === n));
  const outputs = (of) => canonical(of.map((call) => endOf(call).response.output_data));
  const isOther = () => first.length !== second.length || outputs(first) !== outputs(second)
    || second.some((call) => endOf(call).response.status !== "success");
  return {
    status: response.status,
    statuses,
    calls,
    sent: calls[0].request.input_data,
    mismatches: calls.flatMap((call) => call.attempts)
      .filter((one) => one.reason === "version-mismatch").length,
    differs: repeats === 1 && second.length > 0 && isOther(),
    times: calls.map((call) => [
      call.request.metadata.invoked_at,
      ...call.attempts.map((one) => one.response.responded_at),
    ].map(moment)),
    trouble: {
      seq: record.seq, episode_id: record.episode_id, construct_id: deciding.construct_id,
      hop: deciding.hop, status: response.status, reason, error_detail: response.error_detail,
    },
  };
}

// ---- 10 Numbers, times, ids ----

// Pairs of big integers: a score is the decimal that it is written as, exactly.
const NANO = 10n ** 9n;
const Z = 1.959963984540054;

function gcd(a, b) {
  while (b) [a, b] = [b, a % b];
  return a < 0n ? -a : a;
}
function ratio(n, d) {
  if (!d) return null;
  const by = gcd(n, d) || 1n;
  return d < 0n ? { n: -n / by, d: -d / by } : { n: n / by, d: d / by };
}
const whole = (n) => ({ n: BigInt(n), d: 1n });
const plus = (a, b) => ratio(a.n * b.d + b.n * a.d, a.d * b.d);
const minus = (a, b) => plus(a, { n: -b.n, d: b.d });
const times = (a, b) => ratio(a.n * b.n, a.d * b.d);
const over = (a, b) => ratio(a.n * b.d, a.d * b.n);
const less = (a, b) => a.n * b.d < b.n * a.d;
const total = (values) => values.reduce(plus, whole(0));
const sum = (values) => values.reduce((a, b) => a + b, 0n);
const isScore = (value) => typeof value === "bigint";
const round6 = (number) => Number(number.toFixed(6));
const countsOf = (words, found) =>
  Object.fromEntries(words.map((word) => [word, found.filter((one) => one === word).length]));

/** A number as it is written: `0.1` is a tenth. */
function exact(number) {
  expect(typeof number === "number", `expected a number, got ${show(number)}`);
  const parts = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(number));
  const [, sign, int, part = "", power = "0"] = parts;
  const digits = BigInt(sign + int + part);
  const scale = Number(power) - part.length;
  return scale < 0 ? ratio(digits, 10n ** BigInt(-scale)) : whole(digits * 10n ** BigInt(scale));
}

/** A quotient as the nearest whole number, a half as the even one; d is above 0. */
function divided(n, d) {
  let quotient = n / d;
  if (quotient * d > n) quotient -= 1n; // towards minus infinity, not to 0
  const rest = n - quotient * d;
  const isUp = 2n * rest > d || (2n * rest === d && quotient % 2n);
  return isUp ? quotient + 1n : quotient;
}
/** A value as documents have it: to nine places, half-even. */
const published = (f) => (f === null ? null : Number(divided(f.n * NANO, f.d)) / 1e9);
const asNumber = (nano) => (nano === null ? null : Number(nano) / 1e9);

function billionths(value) {
  if (typeof value !== "number" || !(value >= 0 && value <= 1)) return null;
  const { n, d } = exact(value);
  return divided(n * NANO, d);
}

const SECOND = 1_000_000n;
const DAY = 86_400n * SECOND;

/** Microseconds since 1970 of a time as documents have it. */
function moment(text) {
  const isForm = typeof text === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(text);
  const at = isForm ? Date.parse(`${text.slice(0, 19)}Z`) : NaN;
  // Date.parse lets the 31st of a short month be the next day.
  const isDay = Number.isFinite(at) && new Date(at).toISOString().startsWith(text.slice(0, 19));
  expect(isDay, `expected a time such as 2026-01-31T00:00:00.000000Z, got ${show(text)}`);
  return BigInt(at) * 1000n + BigInt(text.slice(20, 26));
}
function writtenTime(at) {
  const seconds = new Date(Number(at / 1000n)).toISOString().slice(0, 19);
  return `${seconds}.${String(at % SECOND).padStart(6, "0")}Z`;
}

async function uuid5(namespace, name) {
  const text = joined(unhex(namespace.replaceAll("-", "")), bytesOf(name));
  const id = (await digest(text, "SHA-1")).slice(0, 16);
  id[6] = (id[6] & 0x0f) | 0x50;
  id[8] = (id[8] & 0x3f) | 0x80;
  return hex(id).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

// ---- 11 Strict JSON and RFC 8785 (docs/contract/evidence.md §1) ----

const MAX_DEPTH = 64;
/** A string, with the colon that makes it a name, or a number. */
const TOKEN = /"(?:[^"\\]|\\.)*"(\s*:)?|-?[0-9][0-9.eE+-]*/g;

/**
 * The value of a JSON document. JSON.parse alone would take the last of two members of one name,
 * round a big integer and let half a surrogate pair pass: of each, two programs read different
 * documents.
 */
export function parseJson(bytes, what = "document") {
  let text;
  let value;
  try {
    text = textOf(bytes);
    value = JSON.parse(text);
  } catch {
    throw new Defect(`${what}: expected JSON in UTF-8`);
  }
  let names = 0;
  for (const [token, colon] of text.matchAll(TOKEN)) {
    if (colon) names += 1;
    if (token[0] !== '"') requireDouble(token, what);
  }
  // Of two members of one name JSON.parse has kept one.
  expect(names === requirePlain(value, what, 1), `${what}: expected every member once`);
  return value;
}

function requireDouble(token, what) {
  const size = Math.abs(Number(token));
  const isWhole = !/[.eE]/.test(token);
  expect(Number.isFinite(size), `${what}: expected a double`);
  expect(size <= Number.MAX_SAFE_INTEGER || (!isWhole && size >= 1e21),
    `${what}: expected integers within 2^53 - 1`);
}

/** How many members there are at all depths; raises for what is too deep, and half a pair. */
function requirePlain(value, what, depth) {
  if (typeof value === "string") expect(value.isWellFormed(), `${what}: a lone surrogate`);
  if (value === null || typeof value !== "object") return 0;
  expect(depth <= MAX_DEPTH, `${what}: expected at most 64 levels`);
  if (Array.isArray(value))
    return value.reduce((all, item) => all + requirePlain(item, what, depth + 1), 0);
  // Without a prototype: `constructor` is a name as any other.
  Object.setPrototypeOf(value, null);
  let members = 0;
  for (const name of Object.keys(value)) {
    expect(name.isWellFormed(), `${what}: a lone surrogate`);
    members += 1 + requirePlain(value[name], what, depth + 1);
  }
  return members;
}

/** The RFC 8785 text of a JSON value. What is undefined has none: a missing member raises here. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const names = Object.keys(value).sort(); // by UTF-16 units, as RFC 8785 has it
    const members = names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
    return `{${members.join(",")}}`;
  }
  if (typeof value === "number" && Number.isFinite(value)) return String(value); // -0 is 0
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  throw new Defect(`expected a JSON value, got ${typeof value}`);
}

/** The named members of an object, and no others; one that is missing raises when it is hashed. */
const pick = (object, names) => Object.fromEntries(names.map((name) => [name, object[name]]));
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Raise at the first place at which two JSON values differ. */
function same(what, expected, got) {
  const isSame = (a, b) => a !== undefined && b !== undefined && canonical(a) === canonical(b);
  if (isSame(expected, got)) return;
  if (isObject(expected) && isObject(got))
    for (const name of Object.keys({ ...expected, ...got }).sort())
      if (!isSame(expected[name], got[name])) same(`${what}/${name}`, expected[name], got[name]);
  const [wanted, found] = [show(expected), show(got)];
  throw new Defect(`${what}: expected ${wanted}, got ${found}`, wanted, found);
}

function show(value) {
  const text = value === undefined ? "nothing" : canonical(value);
  return text.length > 90 ? `${text.slice(0, 90)}…` : text;
}

function expect(holds, message) {
  if (!holds) throw new Defect(message);
}

// ---- 12 Bytes and hashes ----

const subtle = globalThis.crypto?.subtle;
const bytesOf = (text) => new TextEncoder().encode(text);
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
function unhex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}
const digest = async (bytes, name = "SHA-256") => new Uint8Array(await subtle.digest(name, bytes));
const sha256 = async (bytes) => hex(await digest(bytes));
const sameBytes = (a, b) => a.length === b.length && a.every((byte, at) => byte === b[at]);
const isSha256 = (value) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);

function joined(...parts) {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** The text of bytes in UTF-8. A mark of byte order is a character here, and no JSON. */
function textOf(bytes) {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}

/** Bytes of base64 in its one spelling: two spellings of one signature would be two documents. */
function unbase64(text) {
  const isForm = typeof text === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
  expect(isForm && text.length % 4 === 0, `expected base64, got ${show(text)}`);
  const binary = atob(text);
  expect(btoa(binary) === text, "expected base64 as encoding gives it");
  return Uint8Array.from(binary, (sign) => sign.charCodeAt(0));
}

/** In the order of bytes in UTF-8, which is that of code points; sort() goes by halves of pairs. */
function sorted(texts) {
  const keyed = [...texts].map((text) => [hex(bytesOf(text)), text]);
  return keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, text]) => text);
}

async function hmac(key, message) {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const kept = await subtle.importKey("raw", key, algorithm, false, ["sign"]);
  return new Uint8Array(await subtle.sign("HMAC", kept, message));
}

/** The root over leaf hashes (RFC 6962, 2.1). */
async function merkleRoot(leaves) {
  let row = leaves;
  while (row.length > 1) {
    const next = [];
    for (let at = 0; at < row.length; at += 2) {
      const [left, right] = row.slice(at, at + 2);
      next.push(right ? await digest(joined([1], left, right)) : left);
    }
    row = next;
  }
  return hex(row[0]);
}

// ---- 13 Archives, and the command ----

// What page.js uses: a page that is one file has no address to import a module from.
globalThis.echelonVerify = { verify, readArchive, atRoot, needs: subtle ? null : NEEDS_CRYPTO };

const MAX_UNPACKED = 512 * 1024 * 1024;

/** The files of a bundle's archive: tar, packed with gzip or not, as the service sends it. */
export async function readArchive(bytes) {
  const isPacked = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const tar = isPacked ? await unpacked(bytes) : bytes;
  const files = new Map();
  const text = (at, length) => textOf(tar.subarray(at, at + length)).replace(/\0[^]*$/, "");
  let long = null;
  for (let at = 0; at + 512 <= tar.length && tar[at];) {
    const length = parseInt(text(at + 124, 12).trim() || "0", 8);
    const [type, body] = [text(at + 156, 1) || "0", tar.subarray(at + 512, at + 512 + length)];
    expect(text(at + 257, 5) === "ustar" && length >= 0 && body.length === length,
      "expected a tar archive, got other bytes");
    const prefix = text(at + 345, 155);
    const name = long ?? (prefix ? `${prefix}/` : "") + text(at, 100);
    at += 512 + Math.ceil(length / 512) * 512;
    if (type === "x") long = /^\d+ path=(.*)$/m.exec(textOf(body))?.[1] ?? null;
    else if (type === "L") long = textOf(body).replace(/\0$/, "");
    else if (type !== "g") long = null;
    if (type === "0") {
      // Of two files of one name one would be checked, and one be shown.
      expect(!files.has(name), `expected each file once, got ${name} twice`);
      files.set(name, body);
    } else expect("5xgL".includes(type), `expected files and folders only, got ${name}`);
  }
  return atRoot(files);
}

/** What a gzip file holds. It may have several members; a browser's stream takes one at a time. */
async function unpacked(bytes) {
  const ends = [];
  for (let at = bytes.indexOf(0x1f, 1); at >= 0; at = bytes.indexOf(0x1f, at + 1))
    if (bytes[at + 1] === 0x8b && bytes[at + 2] === 8 && bytes[at + 3] === 0) ends.push(at);
  expect(ends.length < 16, "expected an archive of a few gzip members");
  const parts = [];
  let from = 0;
  for (const end of [...ends, bytes.length])
    try {
      parts.push(await unpackedMember(bytes.subarray(from, end)));
      from = end;
    } catch (error) {
      // These bytes may be within a member, and end nothing.
      if (error instanceof Defect || end === bytes.length) throw error;
    }
  return joined(...parts);
}

async function unpackedMember(bytes) {
  const parts = [];
  let size = 0;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  for (const reader = stream.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return joined(...parts);
    size += value.length;
    expect(size <= MAX_UNPACKED, `expected at most ${MAX_UNPACKED} bytes when unpacked`);
    parts.push(value);
  }
}

/** The same files without the folder in which the bundle lies. */
export function atRoot(files) {
  const ends = [...files.keys()].filter((path) => /(^|\/)manifest\.json$/.test(path));
  const root = ends.sort((a, b) => a.length - b.length)[0]?.slice(0, -"manifest.json".length) ?? "";
  // What lies elsewhere keeps its name: the inventory has not called for it.
  return new Map([...files].map(([path, bytes]) =>
    [path.startsWith(root) ? path.slice(root.length) : `../${path}`, bytes]));
}

/** The files of a folder; links lead elsewhere, and are refused. */
export async function readFolder(folder) {
  const { readdir, readFile } = await import("node:fs/promises");
  const files = new Map();
  const walk = async (path) => {
    for (const entry of await readdir(`${folder}/${path}`, { withFileTypes: true })) {
      const name = path ? `${path}/${entry.name}` : entry.name;
      if (entry.isDirectory()) await walk(name);
      else if (entry.isFile()) files.set(name, new Uint8Array(await readFile(`${folder}/${name}`)));
      else throw new Error(`expected files and folders only, got ${name}`);
    }
  };
  await walk("");
  return files;
}

async function main(words) {
  const { readFile, stat } = await import("node:fs/promises");
  const { parseArgs } = await import("node:util");
  const options = { trust: { type: "string" }, json: { type: "boolean" } };
  const { values, positionals } = parseArgs({ args: words, options, strict: false });
  const [path] = positionals;
  const isKnown = Object.keys(values).every((name) => name in options);
  if (positionals.length !== 1 || !isKnown || values.trust === true) {
    console.error("usage: node verify.js BUNDLE [--trust trust.json] [--json]");
    return 2;
  }
  let files;
  let trust;
  try {
    files = (await stat(path)).isDirectory() ? await readFolder(path)
      : await readArchive(new Uint8Array(await readFile(path)));
    trust = values.trust && new Uint8Array(await readFile(values.trust));
  } catch (error) {
    console.error(`expected the folder of an evidence bundle, and files: ${error.message}`);
    return 2;
  }
  if (!files.has("certificate.json")) {
    console.error("expected the folder of an evidence bundle, with a certificate.json");
    return 2;
  }
  const result = await verify(files, { trust });
  // Names are a stranger's: none may steer a terminal.
  const plain = (text) => text.replace(/[^\x20-\x7e]/gu, "?");
  if (values.json) console.log(JSON.stringify(result, null, 2));
  else {
    for (const line of result.lines)
      console.log(plain(`${line.status.padEnd(12)} ${line.id}${line.why ? `: ${line.why}` : ""}`));
    console.log(plain(result.verdict.replace("in your browser", "here")));
  }
  return result.ok ? 0 : 1;
}

// In Node, and started as a program; a page has neither.
if (globalThis.process?.versions?.node && globalThis.process.argv[1]) {
  const { pathToFileURL } = await import("node:url");
  const { realpathSync } = await import("node:fs");
  if (import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href)
    process.exitCode = await main(process.argv.slice(2));
}
