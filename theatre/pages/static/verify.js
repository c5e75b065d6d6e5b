/**
 * Recompute what an evidence bundle of Echelon Theatre claims, in a browser or with Node:
 *
 *     node verify.js BUNDLE [--trust trust.json]
 *
 * where BUNDLE is its folder. Exit code 0: no line failed; 1: one did; 2: no bundle.
 *
 * No dependency but WebCrypto. Paths and bytes go in; a line comes out for each check of
 * `echelon check`, and what is not computed here is "not checked". All bytes are a stranger's:
 * what is missing or of another form raises, and its line has failed.
 *
 * As a reader asks: 1 the result, 2 the files, 3 what was committed, 4 the run, 5 the scores,
 * 6 the tier, 7 the certificate, 8 who signed and logged it. Then what these rest on: 9 the bundle,
 * 10 numbers and times, 11 JSON, 12 bytes, 13 the command.
 */

// ---- 1 The result (docs/check.md) ----

/** Something in the bundle is not as it must be. */
class Defect extends Error {
  constructor(message, values = {}) {
    super(message);
    Object.assign(this, values);
  }
}
/** A check that cannot be made here, or with what is at hand: neither right nor wrong. */
class Unsettled extends Error {}

/**
 * The lines of a result: a check, or why it is not made here. The last eleven speak for parts that
 * are taken as the bundle states them, so that no line that is "ok" speaks for these.
 */
const LINES = {
  inventory: checkInventory,
  sums: checkSums,
  "canonical-form": checkCanonicalForm,
  "bundle-hash": checkBundleHash,
  manifest: checkManifest,
  "certificate-schema": "no JSON Schema is here: certificate-fields compares every member",
  "certificate-copy": "echelon check --certificate compares it with one that you have kept",
  template: checkTemplate,
  commitment: checkCommitment,
  coin: checkCoin,
  datasets: checkDatasets,
  "audit-chain": checkAuditChain,
  "audit-episodes": checkAuditEpisodes,
  times: "whether each is later than what must come before it",
  invocations: "the requests of the calls are not built again",
  "sanitised-input": "no sanitiser is here",
  "version-pins": "which versions answered, and who says so",
  scorers: "no scorer is here: each score is as its line in scores/per_episode.jsonl states it",
  outcomes: checkOutcomes,
  scores: checkScores,
  "human-scores": "who may rate, when, and how far people agree",
  aggregate: checkAggregate,
  "results-hash": checkResultsHash,
  "data-audit": "it needs Unicode case folding",
  baselines: "trivial answers need a scorer",
  resolution: "its steps run computations",
  tier: checkTier,
  "certificate-fields": checkCertificateFields,
  signature: async (bundle) => (await signatureOf(bundle)).note,
  "signer-trusted": checkSigner,
  "commitment-logged": async (bundle) => (await commitmentEntry(bundle)).note,
  "certificate-logged": async (bundle) => (await certificateEntry(bundle)).note,
  order: checkOrder,
  witnesses: "who else saw the log",
  closure: "whether all that was committed is closed: echelon check --online",
  activation: "interpreter, packages, sanitiser, computations and authors of the run",
  holdout: "which episodes were drawn for the holdout, and what they score",
  intervals: "bounds other than Wilson's",
  views: "scores of answers only, with refusals as zero, and at worst and best",
  calibration: "Brier score, ECE and bins, or that there are none",
  usage: "tokens, cost and latency",
  findings: "whether all are listed that a reader must know",
  "episode-root": "the root by which single episodes are shown later",
  repeats: "scores, variance and pass rates of questions that are asked more than once",
  qualifications: "which measure qualifies, and scores corrected for its errors",
  history: "other runs, telemetry and attestations, and what is missing for PROVEN",
};

/** What can be checked where a template withholds episodes: the rest needs `echelon check`. */
const OF_PUBLISHED = [
  "canonical-form", "bundle-hash", "manifest", "template", "commitment", "audit-chain",
  "results-hash", "signature", "signer-trusted", "commitment-logged", "certificate-logged", "order",
];

const NEEDS_CRYPTO = "a browser verifies only in pages that came by https, from this machine "
  + "(http://localhost) or from a file: here it gives no cryptography to scripts";

/**
 * Verify a bundle: `files` has bytes by the path below its folder, `trust` those of the issuer's
 * trust.json, `trustFrom` where that came from, if not from him. `ok` is never true while a line
 * has failed, and says no more than that none has.
 */
export async function verify(files, { trust, trustFrom = "" } = {}) {
  if (!subtle) throw new Error(NEEDS_CRYPTO);
  if (!files.has("certificate.json") && files.has("reproduction.json"))
    throw new Error("a reproduction certifies nothing: `echelon check` compares it");
  const bundle = new Bundle(files, { trust, trustFrom });
  const lines = [];
  for (const [id, check] of Object.entries(LINES))
    lines.push({ id, expected: "", got: "", ...await outcomeOf(id, check, bundle) });
  const idsOf = (status) => lines.filter((line) => line.status === status).map(({ id }) => id);
  const [failed, unchecked] = [idsOf("failed"), idsOf("not checked")];
  const verdict = failed.length
    ? `not valid: ${failed.length} of ${lines.length} checks failed: ${failed.join(", ")}`
    : `verified in your browser: ${lines.length - unchecked.length} of ${lines.length}; `
      + `${unchecked.length} need \`echelon check\`: ${unchecked.join(", ")}`;
  return { lines, failed, unchecked, ok: !failed.length, verdict };
}

async function outcomeOf(id, check, bundle) {
  try {
    if (typeof check === "string") throw new Unsettled(check);
    if (bundle.isPublished && !OF_PUBLISHED.includes(id)) {
      if (id === "tier") same("tier", "UNVERIFIED", bundle.certificate.verification_tier);
      throw new Unsettled("this template withholds episodes");
    }
    return { status: "ok", why: (await check(bundle)) ?? "" };
  } catch (error) {
    const { message, expected = "", got = "" } = error;
    if (error instanceof Unsettled) return { status: "not checked", why: message };
    const why = error instanceof Defect ? message : `not of the expected form (${message})`;
    return { status: "failed", why, expected, got };
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
  const found = {};
  for (const path of bundle.paths.filter((one) => one !== "manifest.json")) {
    const raw = bundle.raw(path);
    found[path] = { path, size_bytes: raw.length, sha256: await sha256(raw) };
  }
  same("manifest.json", found, Object.fromEntries(inventory.map((one) => [one?.path, one])));
  same("manifest.json/file_inventory", Object.values(found), inventory);
  const records = bundle.dataset.map((_, at) => pathOf(at + 1, bundle.dataset.length));
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
      const [text, value] = [textOf(bundle.raw(path)), bundle.json(path)];
      expect(isObject(value) && text === `${canonical(value)}\n`,
        `${path}: not an object in RFC 8785 and a line feed`);
    }
    if (path.endsWith(".jsonl"))
      for (const [text, value] of bundle.lines(path))
        expect(text === canonical(value), `${path}: a line is not canonical`);
  }
}

async function checkBundleHash(bundle) {
  const { evidence_bundle_hash: stated } = bundle.certificate;
  same("certificate.json/evidence_bundle_hash", await bundle.bundleHash, stated);
}

async function checkManifest(bundle) {
  const manifest = bundle.json("manifest.json");
  const hash = await bundle.bundleHash;
  const { theatre_id } = bundle.receipt;
  const expected = {
    ...bundle.versions, theatre_id, bundle_hash: hash, bundle_id: await uuid5(theatre_id, hash),
    commitment_hash: await bundle.commitmentHash, file_inventory: manifest.file_inventory,
    created_at: bundle.trail.at(-1).at,
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
  const expected = {
    // Other lines are about these: `activation` and `coin`.
    ...pick(receipt, ["environment", "isolation", "coin_sha256"]),
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

async function checkCoin(bundle) {
  same("coin_sha256", await sha256(bundle.coin), bundle.receipt.coin_sha256);
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

// ---- 4 The run: chain and batches (docs/contract/evidence.md §3, §5 and §6) ----

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
      ...pick(entry, ["event_type", "detail"]),
      seq, prev_entry_hash: head, theatre_id: receipt.theatre_id, from_state: from, to_state: to,
      at: writtenTime(moment(entry.at)), entry_hash: await sha256(bytesOf(canonical(linked))),
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
  const { issuer } = bundle.only("sealed");
  const { at } = trail.at(-1);
  expect(typeof issuer === "string" && issuer, "sealed/issuer: expected a name");
  const id = await uuid5(receipt.theatre_id, `certificate:${await bundle.commitmentHash}`);
  const sealed = { certificate_id: id, issuer, issued_at: at, theatre_resolved_at: at };
  same("sealed", sealed, bundle.only("sealed"));
}

async function checkAuditEpisodes(bundle) {
  const { activated, dataset, records, repeats, trail } = bundle;
  if (repeats > 1) throw new Unsettled(OF_REPEATS);
  same("activated/episodes", dataset.length, activated.episodes);
  const batched = new Set();
  const expected = [];
  for (const { seqs, journal_sha256 } of bundle.details("episodes_recorded")) {
    const batch = [];
    let before = 0;
    for (const [first, last, ...more] of seqs) {
      expect(Number.isInteger(last) && first <= last && !more.length,
        "episodes_recorded: expected pairs of first and last");
      for (let seq = first; seq <= last; before = seq++) {
        expect(records.has(seq) && !batched.has(seq) && before < seq,
          `episode ${seq}: no record, or not its turn`);
        batched.add(seq);
        batch.push(records.get(seq));
      }
    }
    expect(batch.length && /^[0-9a-f]{64}$/.test(journal_sha256), "episodes_recorded: of none");
    expected.push(["episodes_recorded", {
      seqs, journal_sha256, statuses: countsOf(STATUSES, batch.map((record) => record.status)),
      records_sha256: await sha256(bytesOf(batch.map((record) => `${record.text}\n`).join(""))),
    }]);
    for (const { status, trouble } of batch)
      if (status !== "success")
        expected.push([status === "refused" ? "episode_refused" : "episode_failed", trouble]);
  }
  const recorded = trail.filter((entry) => BATCH.includes(entry.event_type))
    .map((entry) => [entry.event_type, entry.detail]);
  same("audit_trail.jsonl, batches", expected, recorded);
  // Records that no batch has could be exchanged after the run, and head and certificate hold.
  expect(batched.size === records.size, "other episodes than there are records");
}

// ---- 5 From the lines to the aggregate (docs/contract/scoring.md, evidence.md §8) ----

const STATUSES = ["success", "timeout", "error", "refused"];
const OUTCOMES = ["scored", "missing", "excluded", "unscored", "not_run"];
/** What an episode without an answer is, by its status. */
const WITHOUT_ANSWER = {
  timeout: "missing", error: "missing", refused: "excluded", not_run: "not_run",
};

const TEXTUAL = [
  "contains_terms", "debate_quality", "lexical_precision", "lexical_recall",
  "lexical_reply_accuracy", "sequence_similarity",
];
const JUDGED = ["debate_judge", "llm_judge"];
const WITHOUT_TRUTH = [
  ...JUDGED, "contains_terms", "debate_quality", "freshness_decay", "harness_score", "json_schema",
  "lexical_precision", "record_completeness", "timestamp_order",
];

/** What a scorer's scores rest on: as stated, but that none of these is exact. */
function kindOf(scorer, stated) {
  if (TEXTUAL.includes(scorer)) return "textual";
  if (JUDGED.includes(scorer)) return "judged";
  const own = stated[scorer];
  return ["exact", "textual", "judged"].includes(own) ? own : "textual";
}

/** What a template says about how scores are added up. */
function planOf({ template, policy }) {
  const { criteria_ids: ids, weights: stated } = template.criteria;
  const isEqual = !Object.keys(stated ?? {}).length;
  const settles = (policy.on_threshold ?? "settle") === "settle";
  return {
    ids,
    weights: ids.map((id) => exact(isEqual ? 1 : stated[id] ?? 0)),
    mostRefused: exact(policy.max_refusal_rate ?? 0.5),
    mostFailed: settles ? exact(policy.failure_threshold ?? 0.2) : null,
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
    if (typeof truth !== "object" || !Object.keys(truth ?? {}).includes(step)) return false;
    truth = truth[step];
  }
  return true;
}

/** What a criterion counts for an episode, in billionths or null for nothing, and why. */
function verdictOf(bundle, id, { episode, status, line }) {
  if (status === "not_run") return ["not_run", null];
  if (!isApplicable(bundle, id, episode)) return ["not_applicable", null];
  if (status !== "success") return [WITHOUT_ANSWER[status], status === "refused" ? null : 0n];
  const points = billionths(line.scores[id]);
  return points === null ? ["none", null] : ["scored", points];
}

/** The run, episode by episode: what became of each, and what it counts on each criterion. */
const runOf = (bundle) => bundle.once("run", () => {
  if (bundle.repeats > 1) throw new Unsettled(OF_REPEATS);
  const plan = planOf(bundle);
  const { dataset, records } = bundle;
  const stated = bundle.values("scores/per_episode.jsonl");
  expect(stated.length === dataset.length, `expected ${dataset.length} lines of scores`);
  let failed = 0;
  const episodes = dataset.map((episode, at) => {
    const [record, line] = [records.get(at + 1), stated[at]];
    // Behind the end of a run nothing counts, whatever is recorded.
    const hasEnded = plan.mostFailed && isAbove(failed, plan.mostFailed, dataset.length);
    const status = hasEnded || !record ? "not_run" : record.status;
    if (WITHOUT_ANSWER[status] === "missing") failed += 1;
    const verdicts = plan.ids.map((id) => verdictOf(bundle, id, { episode, status, line }));
    const [words, counted] = [0, 1].map((n) => verdicts.map((verdict) => verdict[n]));
    const outcome = WITHOUT_ANSWER[status] ?? (words.includes("scored") ? "scored" : "unscored");
    return { seq: at + 1, episode, line, record, status, words, outcome, counted };
  });
  const ran = episodes.filter((one) => one.status !== "not_run");
  return {
    plan, episodes, ran,
    values: plan.ids.map((_, n) =>
      ran.map((one) => one.counted[n]).filter((one) => one !== null)),
    outcomes: countsOf(OUTCOMES, episodes.map((one) => one.outcome)),
    statuses: countsOf(STATUSES, ran.map((one) => one.status)),
    counts: perCriterion(plan, (id, n) => {
      const { none, ...counts } = countsOf(["scored", "missing", "not_applicable", "none"],
        episodes.map((one) => one.words[n]));
      // A line does not tell `declined` from `unscored`, and no mean differs between the two.
      const { declined } = bundle.aggregate.score_counts[id];
      return { ...counts, declined, unscored: none - declined };
    }),
  };
});
const OF_REPEATS = "each question is asked more than once: see repeats";

function checkOutcomes(bundle) {
  const { episodes, outcomes } = runOf(bundle);
  for (const { seq, outcome, line } of episodes) same(`episode ${seq}`, outcome, line.outcome);
  expect(outcomes.scored, "no episode was scored");
}

function checkScores(bundle) {
  const { plan, episodes } = runOf(bundle);
  for (const { seq, episode, line, outcome, counted } of episodes) {
    const points = counted.map((one) => (one === null ? null : ratio(one, NANO)));
    const expected = {
      seq, episode_id: episode.episode_id, outcome, holdout: line.holdout,
      scores: perCriterion(plan, (_, n) => published(points[n])),
      // Over the criteria that have a score here; the run's composite is over all of them.
      composite: published(weighted(plan, points)),
    };
    same(`scores/per_episode.jsonl, line ${seq}`, expected, line);
  }
  return "no scorer is run: each score is taken as its line states it";
}

/** The mean of values by weight, over the criteria that have one. */
function weighted({ weights }, values) {
  const there = weights.map((_, n) => n).filter((n) => values[n] !== null);
  const weight = total(there.map((n) => weights[n]));
  return weight.n ? over(total(there.map((n) => times(weights[n], values[n]))), weight) : null;
}

/** Wilson's interval for a share, to six places. */
export function wilson(right, number) {
  const [share, square] = [right / number, Z * Z];
  const centre = (share + square / (2 * number)) / (1 + square / number);
  const spread = Math.sqrt((share * (1 - share)) / number + square / (4 * number ** 2));
  const half = (Z * spread) / (1 + square / number);
  return [right === 0 ? 0 : round6(centre - half), right === number ? 1 : round6(centre + half)];
}

/** Wilson's where each episode is right or wrong; the line `intervals` is about other bounds. */
function intervalOf(run, n, stated) {
  const values = run.values[n];
  const isShare = values.length > 1 && values.every((one) => one === 0n || one === NANO)
    && run.ran.every(({ episode }) => (episode.cluster_key ?? null) === null);
  if (!isShare) {
    expect(stated.method !== "wilson", "score_intervals: Wilson's without right and wrong");
    return stated;
  }
  const ends = wilson(values.filter((one) => one === NANO).length, values.length);
  // Floating point may differ in its last place between machines.
  const isNear = [stated.low, stated.high].every((end, at) =>
    typeof end === "number" && Math.abs(end - ends[at]) <= 2e-6);
  const [low, high] = isNear ? [stated.low, stated.high] : ends;
  return { method: "wilson", low, high, level: 0.95 };
}

const perCriterion = (plan, valueOf) =>
  Object.fromEntries(plan.ids.map((id, n) => [id, valueOf(id, n)]));

/** Whether people have a share in a score: then only `echelon check` can say what it comes to. */
const isShared = ({ template }) => (template.hitl_steps ?? []).some(
  (step) => (step.share ?? null) !== null && (step.criterion_id ?? null) !== null);
const BY_PEOPLE = "people have a share in the scores: see human-scores";

function checkAggregate(bundle) {
  const run = runOf(bundle);
  const { plan, ran, outcomes, statuses, counts } = run;
  const { results_hash: _, ...stated } = bundle.aggregate;
  const means = run.values.map((values) => ratio(sum(values), BigInt(values.length) * NANO));
  const share = (count, of) => published(ratio(BigInt(count), BigInt(of)));
  const { resolution_programme: steps } = bundle.template;
  const hasComputed = steps.some((step) => step.input_spec?.in_aggregate === true);
  const expected = {
    // As stated: lines of their own are about these.
    ...pick(stated, ["holdout_scores", "calibration", "human_scores", "answered_only",
      "refusals_as_zero", "worst_case_bounds", ...(hasComputed ? ["computed"] : [])]),
    scores: perCriterion(plan, (_, n) => published(means[n])),
    composite_score: means.includes(null) ? null : published(weighted(plan, means)),
    score_counts: counts,
    episode_counts: {
      ...pick(statuses, ["timeout", "error", "refused"]),
      ...pick(outcomes, ["scored", "unscored", "not_run"]), total: run.episodes.length,
    },
    coverage: share(outcomes.scored, ran.length - outcomes.excluded),
    refusal_rate: share(outcomes.excluded, ran.length),
    score_intervals: {
      ...perCriterion(plan, (id, n) => intervalOf(run, n, stated.score_intervals[id])),
      ...pick(stated.score_intervals, ["composite_score"]),
    },
  };
  if (isShared(bundle))
    Object.assign(expected, pick(stated, ["scores", "composite_score", "score_intervals"]));
  same("scores/aggregate.json", expected, stated);
  if (isShared(bundle)) throw new Unsettled(BY_PEOPLE);
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
  if (isShared(bundle)) throw new Unsettled(BY_PEOPLE);
  const stated = bundle.json("tier.json");
  const { history } = stated;
  const facts = await factsOf(bundle);
  const open = measuresThatDecide(bundle).map(([id]) => id)
    .filter((id) => Object.hasOwn(bundle.qualifications, id));
  for (const id of open)
    if (!Object.hasOwn(facts.unqualified_measures, id)) await requireQualification(bundle, id);
  const as = (tier) => ([code, seen]) => ({ code, seen, tier });
  const unmet = unmetForBacktested(facts, history, planOf(bundle)).map(as("BACKTESTED"));
  // What is missing for PROVEN rests on other runs: without any, all of it is.
  const withoutOthers = [
    ["runs-below-3", unmet.length ? "0" : "1"], ["runs-span-below-90-days", "0:00:00"],
    ["telemetry-missing", "0"], ["attestation-missing", "0"], ["behavioural-signal-missing", "0"],
  ].map(as("PROVEN"));
  const stillUnmet = stated.assessment.unmet.filter((one) => one.tier === "PROVEN");
  const above = hasHistory(history) ? stillUnmet : withoutOthers;
  const tier = unmet.length ? "UNVERIFIED" : above.length ? "BACKTESTED" : "PROVEN";
  const days = { UNVERIFIED: null, BACKTESTED: 90n, PROVEN: 180n }[tier];
  const assessment = {
    tier, unmet: [...unmet, ...above],
    caps: (unmet.length ? unmet : above).map(({ code }) => code),
    expires_at: days === null ? null : writtenTime(moment(bundle.trail.at(-1).at) + days * DAY),
  };
  same("tier.json", { facts, history, assessment }, stated);
  if (tier === "PROVEN") throw new Unsettled("PROVEN rests on the history of other runs");
  if (open.length) throw new Unsettled(`whether the measure of ${open.join(", ")} qualifies`);
}

const hasHistory = ({ runs, telemetry, attestations, signals }) =>
  [runs, telemetry, attestations, signals].some((list) => list.length > 0);

/** Code and what was seen of each requirement of BACKTESTED that is not met, in order. */
function unmetForBacktested(facts, history, { mostRefused }) {
  const { replay_count: scored, distinct_inputs: distinct, max_refusal_rate: most } = facts;
  const { run: asked, failures: failed, refusals: refused } = facts;
  const unpinned = facts.construct_version === null ? ["construct_version"] : [];
  const isMock = facts.rehearsal || facts.adapter_pin.split("@")[0] === "mock";
  const open = history.disputes.filter((one) => one.status === "admitted");
  const rules = [
    [scored === 0, "nothing-scored", 0],
    [scored < 50, "replays-below-50", scored],
    [distinct < Math.min(50, scored), "distinct-inputs-below-50", distinct],
    [5 * failed > asked, "failure-rate-above-20", `${failed}/${asked}`],
    [isAbove(refused, mostRefused, asked), "refusal-rate-above-max",
      `${refused}/${asked}, allowed ${most}`],
    ...sorted(Object.keys(facts.criterion_counts)).flatMap((id) => {
      const { scored: own, missing, declined, unscored } = facts.criterion_counts[id];
      const [number, inputs] = [own + missing, facts.criterion_distinct_inputs[id]];
      const all = number + declined + unscored;
      return [
        [number === 0, `criterion-unscored:${id}`, 0],
        [number < 30, `criterion-n-below-30:${id}`, number],
        [inputs < Math.min(30, number), `distinct-per-criterion-below-30:${id}`, inputs],
        [unscored, `unscored-answers:${id}`, unscored],
        [isAbove(declined, mostRefused, all), `declined-above-max:${id}`,
          `${declined}/${all}, allowed ${most}`],
      ];
    }),
    ...sorted(Object.keys(facts.unqualified_measures)).map(
      (id) => [true, `measure-unqualified:${id}`, facts.unqualified_measures[id]]),
    ...sorted(new Set([...unpinned, ...facts.missing_pins])).map(
      (name) => [true, `pin-missing:${name}`, "absent"]),
    [facts.version_mismatches, "version-mismatch", facts.version_mismatches],
    [facts.determinism_differences, "answers-not-deterministic", facts.determinism_differences],
    [isMock, "mock-adapter", facts.adapter_pin],
    [!facts.scorers_committed, "scorers-not-committed", "no"],
    [!facts.bundle_complete, "bundle-incomplete", "no"],
    [!facts.commitment_verifiable, "commitment-not-verifiable", "no"],
    [open.length, "dispute-open", sorted(open.map((one) => one.dispute_id)).join(", ")],
  ];
  const unmet = rules.filter(([holds]) => holds).map(([, code, seen]) => [code, `${seen}`]);
  const found = unmet.map(([code]) => code);
  const more = sorted(new Set(facts.extra_caps)).filter((code) => !found.includes(code));
  return [...unmet, ...more.map((code) => [code, "found with the evidence"])];
}

async function factsOf(bundle) {
  const { plan, outcomes, counts, episodes, ran } = runOf(bundle);
  const { template, config, underTest, versions, activated } = bundle;
  const records = ran.map((one) => one.record);
  const calls = records.flatMap((record) => record.calls);
  // One construct for the whole run: another adapter may lead to another program.
  for (const { construct_id: name, adapter } of calls)
    same(`the adapter of ${name}`, activated.adapters[name], adapter);
  const adapter = calls.findLast((call) => call.construct_id === underTest)?.adapter ?? "";
  const named = {
    construct_version: versions.construct_version ?? null,
    dataset_hash: template.dataset_hashes[config.replay_dataset_id],
    scorer_version: versions.scorer_version,
  };
  const inputs = ran.map(({ episode, record }) =>
    canonical(bundle.playsTurns ? episode.input_data : record.sent));
  const distinct = (holds) => new Set(inputs.filter((_, at) => holds(ran[at]))).size;
  const { n, d } = plan.mostRefused;
  const [most, by] = [n, d].map((one) => one / divisor(n, d));
  const { unqualified_measures: stated } = bundle.json("tier.json").facts;
  return {
    replay_count: outcomes.scored, failures: outcomes.missing, refusals: outcomes.excluded,
    run: ran.length, total: episodes.length,
    max_refusal_rate: by === 1n ? `${most}` : `${most}/${by}`, criterion_counts: counts,
    construct_id: underTest, construct_version: named.construct_version, adapter_pin: adapter,
    rehearsal: calls.some((call) => call.adapter.startsWith("mock@")),
    distinct_inputs: distinct((one) => one.outcome === "scored"),
    criterion_distinct_inputs: perCriterion(plan, (_, at) =>
      distinct((one) => one.counted[at] !== null)),
    // Of what the template calls qualified, as stated: see checkTier.
    unqualified_measures: Object.fromEntries(measuresThatDecide(bundle)
      .map(([id, why]) => [id, Object.hasOwn(bundle.qualifications, id) ? stated[id] : why])
      .filter(([, why]) => why !== undefined)),
    missing_pins: Object.keys(named).filter((name) => !named[name]),
    version_mismatches: sum(records.map((record) => record.mismatches), 0),
    determinism_differences: records.filter((record) => record.differs).length,
    scorers_committed: Object.keys(template.scoring?.criteria_scorers ?? {}).length > 0,
    bundle_complete: REQUIRED.every((path) => bundle.files.has(path)),
    commitment_verifiable: bundle.receipt.commitment_hash === await bundle.commitmentHash,
    extra_caps: extraCaps(bundle, plan, outcomes, adapter),
  };
}

/** Criteria with a weight whose scorer is not exact, with the reason why that caps the tier. */
function measuresThatDecide(bundle) {
  const { ids, weights } = planOf(bundle);
  return ids.filter((_, n) => weights[n].n).map((id) => {
    const [scorer] = scorerOf(bundle, id);
    return [id, `${scorer} is ${kindOf(scorer, bundle.receipt.scorer_kinds)}`];
  }).filter(([, why]) => !why.endsWith(" is exact"));
}

/** Of a measure that carries a tier: its signed document is the one named, and says it is good. */
async function requireQualification(bundle, id) {
  const { dataset, sha256: named } = bundle.qualifications[id];
  const [{ dsseEnvelope }] = bundle.values(`ground_truth/${dataset}.jsonl`);
  const { qualification } = parseJson(unbase64(dsseEnvelope.payload)).predicate;
  same(`the qualification of ${id}`, named, await sha256(bytesOf(canonical(qualification))));
  expect(qualification.balanced_accuracy.low >= 0.75, `${id}: a measure below 0.75`);
}

function extraCaps(bundle, plan, outcomes, adapter) {
  const closed = isolationOf(bundle);
  const byHarness = plan.ids.filter((id, n) =>
    plan.weights[n].n && scorerOf(bundle, id)[0] === "harness_score");
  return [
    [outcomes.not_run > 0, "episodes-not-run"],
    [bundle.goldIsUnpinned, "gold-unpinned"],
    [Object.hasOwn(bundle.config, "withheld"), "episodes-withheld"],
    [adapter.startsWith("plain_"), "version-unreported"],
    [!(closed.files && closed.processes), "construct-not-isolated"],
    [adapterTypes(bundle).includes("imported"), "evidence:imported"],
    ...sorted(byHarness).map((id) => [true, `scores-by-harness:${id}`]),
    ...sorted(missedGuards(bundle)).map((code) => [true, code]),
  ].filter(([holds]) => holds).map(([, code]) => code);
}

/** Steps that guard the evidence, and failed or were skipped. */
function missedGuards(bundle) {
  const { steps } = bundle.json("resolution.json");
  return bundle.template.resolution_programme.flatMap((step, at) => {
    if (step.type !== "deterministic_computation") return [];
    const isChain = step.input_spec?.computation === "provenance_chain";
    const { status, result } = steps[at];
    // A provenance chain that found its log not intact counts as failed.
    const isBroken = isChain && status === "completed" && result.output.intact !== true;
    const ended = isBroken ? "failed" : status;
    const isGuard = isChain || Object.keys(step.output_spec ?? {}).length > 0;
    return isGuard && ended !== "completed" ? [`step-${ended}:${step.step_id}`] : [];
  });
}

const CLOSED = ["files", "processes", "network"];
const WEAKEST_FIRST = ["none", "other-user", "landlock", "namespaces", "remote"];

function adapterTypes({ config }) {
  return [config, ...Object.values(config.construct_endpoints ?? {})].map((of) => of.adapter_type);
}

/** What was closed to every construct. */
function isolationOf(bundle) {
  // Who asked had the answers.
  if (adapterTypes(bundle).some((type) => type === "imported" || type === "harness"))
    return { files: false, processes: false, network: false, by: "none" };
  const found = bundle.chain.map((name) => bundle.activated.isolation[name]);
  const weakest = Math.min(...found.map((one) => WEAKEST_FIRST.indexOf(one.by)));
  const closed = CLOSED.map((name) => [name, found.every((one) => one[name] === true)]);
  return { ...Object.fromEntries(closed), by: WEAKEST_FIRST[weakest] };
}

// ---- 7 The certificate (docs/certificate.md, docs/contract/evidence.md §4) ----

async function checkCertificateFields(bundle) {
  const { template, aggregate, receipt, config, trail, certificate, versions } = bundle;
  const sealed = bundle.only("sealed");
  const { assessment } = bundle.json("tier.json");
  const chain = config.construct_chain ?? [];
  const isQualified = Object.keys(bundle.qualifications).length;
  const isCorrected = isQualified || template.resolution_programme.some((step) =>
    step.type === "hitl_rubric" || step.input_spec?.computation === "judge_controls");
  expect((isQualified || certificate.qualification === null)
    && (isCorrected || certificate.corrected_scores === null), "certificate.json: no such measure");
  // Every member, and none more: what is not computed again must not be on a certificate.
  const expected = {
    // As stated: lines of these names check them.
    ...pick(certificate, ["findings", "episode_root", "usage", "version_source", "qualification",
      "corrected_scores"]),
    repeats: aggregate.repeats ? certificate.repeats : null,
    ...pick(aggregate, ["scores", "composite_score", "score_intervals", "score_counts",
      "holdout_scores", "episode_counts", "coverage", "refusal_rate", "results_hash"]),
    ...pick(sealed, ["certificate_id", "issuer"]), ...versions,
    ...pick(receipt, ["theatre_id", "environment"]),
    ...pick(template, ["execution_path"]), ...pick(config, ["ground_truth_source"]),
    ...pick(assessment, ["caps", "expires_at"]), verification_tier: assessment.tier,
    schema_version: "1.2.0", template_id: template.theatre_id, construct_id: bundle.underTest,
    criteria: { criteria_human: "", weights: {}, ...template.criteria },
    precision: aggregate.scores.precision ?? null, recall: aggregate.scores.recall ?? null,
    reply_accuracy: aggregate.scores.reply_accuracy ?? null,
    brier_score: aggregate.calibration?.brier_score ?? null,
    ece: aggregate.calibration?.ece?.value ?? null, replay_count: aggregate.episode_counts.scored,
    commitment_hash: await bundle.commitmentHash, coin_sha256: await sha256(bundle.coin),
    audit_head: trail.at(-1).entry_hash, evidence_bundle_hash: await bundle.bundleHash,
    dataset_hash: template.dataset_hashes[config.replay_dataset_id] ?? null,
    ground_truth_hash: await sha256(bytesOf(canonical(template.dataset_hashes))),
    construct_chain_versions: chain.length ? pick(template.version_pins.constructs, chain) : null,
    isolation: isolationOf(bundle), data_audit: bundle.json("scores/data_audit.json"),
    baselines: bundle.json("scores/baselines.json"), issued_at: trail.at(-1).at,
    theatre_resolved_at: trail.at(-1).at, theatre_committed_at: receipt.committed_at, owner: null,
  };
  same("certificate.json", expected, certificate);
}

// ---- 8 Signature and log (docs/contract/trust.md; DSSE, Sigstore bundle, C2SP notes) ----

const PAYLOAD_TYPE = "application/vnd.in-toto+json";

/** Whom the reader trusts: the issuer's keys, and his log. */
const trustOf = (bundle) => bundle.once("trust", async () => {
  if (!bundle.trust) throw new Unsettled("give the issuer's trust.json to verify it");
  const { issuer, keys, log } = parseJson(bundle.trust, "trust.json");
  const found = new Map();
  for (const { kid, public_key, valid_from, valid_until, revoked_index: revoked } of keys) {
    const der = unbase64(public_key);
    const isNew = !found.has(kid) && kid === await sha256(der);
    expect(isNew, "trust.json: a key twice, or one whose id is not its hash");
    const until = valid_until === null ? null : moment(valid_until);
    found.set(kid, { der, from: moment(valid_from), until, revoked });
  }
  const [name, id, ...rest] = log.vkey.split("+");
  const material = unbase64(rest.join("+"));
  expect(material[0] === 1 && material.length === 33, "trust.json: expected a log's Ed25519 key");
  return { issuer, keys: found, log: { name, id, key: material.subarray(1) } };
});

function proofFile(bundle, name) {
  const bytes = bundle.files.get(`proofs/${name}`);
  if (!bytes) throw new Unsettled(`no proofs/${name}`);
  return bytes;
}

/** The statement that one trusted key has signed, in its one spelling, about this certificate. */
const signatureOf = (bundle) => bundle.once("signature", async () => {
  const data = proofFile(bundle, "certificate.sigstore.json");
  const { keys, issuer } = await trustOf(bundle);
  const { dsseEnvelope: envelope } = parseJson(data, "certificate.sigstore.json");
  const [{ keyid: kid, sig }] = envelope.signatures;
  const spelling = canonical({
    mediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
    verificationMaterial: { publicKey: { hint: kid } },
    dsseEnvelope: {
      payload: envelope.payload, payloadType: PAYLOAD_TYPE, signatures: [{ keyid: kid, sig }],
    },
  });
  expect(sameBytes(data, bytesOf(`${spelling}\n`)),
    "another form than a Sigstore bundle of one signature has here");
  const trusted = [...keys.keys()].join(" or ");
  expect(keys.has(kid), `expected a signature by ${trusted}, which you trust, got one by ${kid}`);
  const payload = unbase64(envelope.payload);
  const frame = `DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${payload.length} `;
  const message = joined(bytesOf(frame), payload);
  expect(await signedByP256(keys.get(kid).der, unbase64(sig), message),
    `not a signature by ${kid}`);
  const { certificate } = bundle;
  const { commitment_log } = parseJson(payload, "the statement").predicate;
  const statement = canonical({
    _type: "https://in-toto.io/Statement/v1",
    subject: [{ name: "SHA256SUMS", digest: { sha256: certificate.evidence_bundle_hash } }],
    predicateType: "urn:echelon:attestation:calibration-certificate:v1",
    predicate: { certificate, commitment_log },
  });
  expect(sameBytes(payload, bytesOf(statement)), "the statement: of another certificate");
  const from = bundle.trustFrom ? `, by ${bundle.trustFrom}: who trusts that trusts its maker` : "";
  return { kid, payload, commitment_log, note: `signed by key ${kid} of ${issuer}${from}` };
});

const closeBy = ({ certificate, template, policy }) => moment(certificate.theatre_committed_at)
  + DAY * BigInt(template.schema_version === "2.2.0" ? policy.close_within_days ?? 30 : 30);

const commitmentEntry = (bundle) => bundle.once("commitment entry", async () => {
  const data = proofFile(bundle, "commitment.tlog-proof");
  const { text } = parseProof(data);
  // A run without the value that the log gave may have begun before.
  same("the nonce of the run", await sha256(bytesOf(text)), bundle.activated.run_nonce);
  const entry = {
    ...pick(bundle.certificate, ["theatre_id", "construct_id", "construct_version", "template_id",
      "coin_sha256", "commitment_hash"]),
    type: "commitment/v1",
    close_by: writtenTime(closeBy(bundle)),
  };
  if (!bundle.files.has("coin.txt")) return lookUp(bundle, data, [entry]);
  // A template that is not public: the coin opens the entry.
  const salted = hex(await hmac(bundle.coin, bytesOf(bundle.certificate.commitment_hash)));
  return lookUp(bundle, data, [entry, { ...entry, commitment_hash: salted, salted: true }]);
});

const certificateEntry = (bundle) => bundle.once("certificate entry", async () => {
  const data = proofFile(bundle, "certificate.tlog-proof");
  const { payload } = await signatureOf(bundle);
  const { place } = await commitmentEntry(bundle);
  return lookUp(bundle, data, [{
    ...pick(bundle.certificate, ["theatre_id", "expires_at"]),
    type: "certificate/v1", tier: bundle.certificate.verification_tier, commitment_index: place,
    statement_sha256: await sha256(payload),
  }]);
});

/** Where the trusted log has one of these entries. */
async function lookUp(bundle, data, entries) {
  const { log } = await trustOf(bundle);
  const { place, hashes, text, origin, size, root, signatures } = parseProof(data);
  const own = signatures.filter((one) => one.name === log.name && one.id === log.id);
  expect(origin === log.name && own.length > 0,
    `the checkpoint of a log that is not trusted: ${origin}`);
  for (const { signature } of own)
    expect(await signedByEd25519(log.key, signature, bytesOf(text)),
      `not a signature by ${log.name}`);
  for (const entry of entries) {
    const leaf = await digest(joined([0], bytesOf(canonical(entry))));
    if (sameBytes(await rootAbove(leaf, place, size, hashes), root))
      return { place, origin, size, text, note: `entry ${place} of ${origin}` };
  }
  throw new Defect(`another entry than the one at ${place} in the tree of ${size}`);
}

async function checkSigner(bundle) {
  const { kid } = await signatureOf(bundle);
  const key = (await trustOf(bundle)).keys.get(kid);
  const at = moment(bundle.certificate.issued_at);
  expect(at >= key.from && (key.until === null || at <= key.until),
    `signed at ${writtenTime(at)}, when its key did not count`);
  if (key.revoked !== null) {
    // What no log has could have been signed by a thief at any time.
    const entry = await certificateEntry(bundle).catch(() => null);
    expect(entry && entry.place < key.revoked, `signed by the revoked key ${kid}`);
  }
  return "at a time that is the issuer's own word";
}

async function checkOrder(bundle) {
  const [last, first] = [await certificateEntry(bundle), await commitmentEntry(bundle)];
  const { commitment_log } = await signatureOf(bundle);
  expect(first.place < first.size && first.size <= last.place && last.place < last.size,
    "the certificate's entry is not behind the commitment's checkpoint");
  const named = { origin: first.origin, index: first.place, checkpoint: first.text };
  same("the statement's commitment_log", named, commitment_log);
  expect(moment(bundle.certificate.theatre_resolved_at) <= closeBy(bundle), "void: past its day");
  return `committed at ${first.place}, certified at ${last.place}`;
}

/** A `tlog-proof`: an entry's place, hashes; a checkpoint of origin, size, root; signatures. */
const PROOF = new RegExp("^c2sp\\.org/tlog-proof@v1\\n(?:extra .*\\n)?index (0|[1-9]\\d*)\\n"
  + "((?:.{44}\\n)*)\\n((.+)\\n(0|[1-9]\\d*)\\n(.{44})\\n)\\n((?:— .+\\n)+)$");

function parseProof(bytes) {
  const found = PROOF.exec(textOf(bytes));
  expect(found, "expected a tlog-proof");
  const [, place, hashes, text, origin, size, root, signatures] = found;
  const each = (lines, read) => lines.split("\n").slice(0, -1).map(read);
  return {
    text, origin, place: Number(place), size: Number(size), root: unbase64(root),
    hashes: each(hashes, unbase64),
    signatures: each(signatures, (line) => {
      const [, name, blob] = line.split(" ");
      const raw = unbase64(blob);
      return { name, id: hex(raw.subarray(0, 4)), signature: raw.subarray(4) };
    }),
  };
}

/** The root that a proof leads to from an entry's hash (RFC 9162, 2.1.3.2). */
async function rootAbove(leaf, place, treeSize, hashes) {
  expect(place < treeSize, `no entry ${place} in a tree of ${treeSize}`);
  let [node, last, root] = [place, treeSize - 1, leaf];
  const half = (number) => Math.floor(number / 2); // a shift would cut to 32 bits
  for (const one of hashes) {
    expect(last > 0, "too many hashes in the proof");
    if (node % 2 || node === last) {
      root = await digest(joined([1], one, root));
      while (node && node % 2 === 0) [node, last] = [half(node), half(last)];
    } else root = await digest(joined([1], root, one));
    [node, last] = [half(node), half(last)];
  }
  expect(last === 0, "too few hashes in the proof");
  return root;
}

/**
 * r and s, 32 bytes each, of a P-256 signature in DER, as WebCrypto takes them. Minimal DER alone:
 * a second spelling of one signature would be a second document that is signed.
 */
export function rawSignature(der) {
  const number = (at) => der.subarray(at + 2, at + 2 + der[at + 1]);
  const r = number(2);
  const raw = [r, number(4 + r.length)].map((one) => joined(new Uint8Array(32), one).slice(-32));
  const spelt = raw.map((one) => {
    const digits = one.subarray(Math.max(0, one.findIndex(Boolean)));
    // Of a digit from 0x80 on the number would be negative: one zero keeps it positive.
    const bytes = digits[0] < 0x80 ? digits : joined([0], digits);
    return joined([2, bytes.length], bytes);
  });
  const both = joined(...spelt);
  expect(sameBytes(der, joined([0x30, both.length], both)), "not a signature in minimal DER");
  return joined(...raw);
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

// ---- 9 The bundle as it is read (docs/contract/evidence.md §4 to §7) ----

class Bundle {
  #made = new Map();
  constructor(files, options) {
    Object.assign(this, { files, ...options });
    this.paths = sorted([...files.keys()].filter((path) => !PROOFS.includes(path)));
  }
  /** Make a step once; every check that rests on it gets, or raises, the same. */
  once(name, make) {
    if (!this.#made.has(name)) this.#made.set(name, make());
    return this.#made.get(name);
  }
  raw(path) {
    const bytes = this.files.get(path);
    expect(bytes !== undefined, `${path}: missing`);
    return bytes;
  }
  json(path) {
    return this.once(`json ${path}`, () => parseJson(this.raw(path), path));
  }
  /** [text, value] of each line. */
  lines(path) {
    return this.once(`lines ${path}`, () => {
      const texts = textOf(this.raw(path)).split("\n");
      expect(texts.pop() === "", `${path}: no line feed at the end`);
      return texts.map((text, at) => [text, parseJson(bytesOf(text), `${path}, line ${at + 1}`)]);
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
  /** Without all of its episodes: its template withholds some, else the file is one too many. */
  get isPublished() { return this.files.has("episodes.jsonl") && "withheld" in this.config; }
  details(event) {
    return this.trail.filter((one) => one.event_type === event).map((one) => one.detail);
  }
  only(event) {
    const found = this.details(event);
    expect(found.length === 1, `audit_trail.jsonl: ${found.length} times ${event}`);
    return found[0];
  }
  /** The constructs that an episode goes through. */
  get chain() {
    const steps = this.template.resolution_programme.filter(
      (step) => step.type === "construct_invocation").map((step) => step.construct_id);
    return this.config.construct_chain ?? [...new Set(steps)];
  }
  get versions() {
    const { version_pins: pins } = this.template;
    return {
      scorer_version: pins.scorer_version, methodology_version: pins.methodology_version ?? "1.0.0",
      construct_version: pins.constructs[this.underTest],
    };
  }
  get commitmentHash() {
    const { template } = this;
    const { dataset_hashes, version_pins } = template;
    return sha256(bytesOf(canonical({ dataset_hashes, template, version_pins })));
  }
  get bundleHash() { return sha256(this.raw("SHA256SUMS")); }
  get coin() {
    const text = textOf(this.raw("coin.txt"));
    expect(/^[0-9a-f]{64}\n$/.test(text), "coin.txt: not 64 hex digits");
    return unhex(text.trim());
  }
  get dataset() {
    return this.once("dataset", () => {
      const episodes = this.values("ground_truth/dataset.jsonl");
      const ids = episodes.map((one) => one.episode_id);
      const isNew = new Set(ids).size === ids.length && ids.every((id) => typeof id === "string");
      expect(ids.length && isNew, "ground_truth/dataset.jsonl: an episode_id twice");
      return episodes;
    });
  }
  get goldName() {
    const { gold_label_set = null, gold_label_dataset_id: name } = this.config;
    return gold_label_set === null ? null : name ?? "gold_labels";
  }
  get goldIsUnpinned() {
    return this.goldName !== null && !Object.hasOwn(this.template.dataset_hashes, this.goldName);
  }
  /** File below ground_truth/ → the dataset that it is. */
  get groundTruth() {
    const files = { "dataset.jsonl": this.config.replay_dataset_id };
    if (this.goldName !== null && !this.goldIsUnpinned) files["gold_labels.jsonl"] = this.goldName;
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
  /** Criterion → the signed document that its measure rests on. */
  get qualifications() {
    const { schema_version, scoring } = this.template;
    return schema_version === "2.2.0" ? scoring?.qualifications ?? {} : {};
  }
  /** seq → what the record of an episode says, as far as results depend on it. */
  get records() {
    return this.once("records", () => {
      let [found, last] = [new Map(), 0];
      for (const path of this.paths.filter((one) => one.startsWith("invocations/")))
        for (const [text, record] of this.lines(path)) {
          const { seq } = record;
          // In its place, so that no episode is there twice with the better of two answers.
          const isNext = Number.isInteger(seq) && seq > last && seq <= this.dataset.length;
          expect(isNext && path === pathOf(seq, this.dataset.length), `${path}: out of place`);
          found.set(seq, { text, ...readRecord(record) });
          last = seq;
        }
      return found;
    });
  }
}

const PER_PART = 1000;

/** The file of the record of an episode. */
function pathOf(seq, episodes) {
  if (episodes <= PER_PART) return `invocations/episode_${String(seq).padStart(6, "0")}.json`;
  return `invocations/part-${String(Math.ceil(seq / PER_PART)).padStart(5, "0")}.jsonl`;
}

function readRecord(record) {
  const { calls } = record;
  const endOf = (call) => call.attempts.at(-1);
  const [first, second] = [0, 1].map((n) => calls.filter((call) => call.repeat === n));
  const last = first.at(-1);
  const { response, reason } = endOf(last);
  const { status, error_detail } = response;
  expect(STATUSES.includes(status), `record ${record.seq}: expected a status, got ${show(status)}`);
  const outputs = (of) => canonical(of.map((call) => endOf(call).response.output_data));
  const isOther = () => first.length !== second.length || outputs(first) !== outputs(second)
    || second.some((call) => endOf(call).response.status !== "success");
  return {
    status, calls, sent: calls[0].request.input_data,
    mismatches: calls.flatMap((call) => call.attempts)
      .filter((one) => one.reason === "version-mismatch").length,
    differs: second.length > 0 && isOther(),
    trouble: {
      ...pick(record, ["seq", "episode_id"]), ...pick(last, ["construct_id", "hop"]),
      status, reason, error_detail,
    },
  };
}

// ---- 10 Numbers, times, ids ----

// Pairs of big integers: a score is the decimal that it is written as, exactly.
const NANO = 10n ** 9n;
const Z = 1.959963984540054;

const ratio = (n, d) => (d ? { n, d } : null);
const whole = (n) => ratio(BigInt(n), 1n);
const plus = (a, b) => ratio(a.n * b.d + b.n * a.d, a.d * b.d);
const times = (a, b) => ratio(a.n * b.n, a.d * b.d);
const over = (a, b) => ratio(a.n * b.d, a.d * b.n);
const isAbove = (count, share, of) => BigInt(count) * share.d > share.n * BigInt(of);
const sum = (values, nothing = 0n) => values.reduce((a, b) => a + b, nothing);
const total = (values) => values.reduce(plus, whole(0));
const round6 = (number) => Number(number.toFixed(6));
const countsOf = (words, found) =>
  Object.fromEntries(words.map((word) => [word, found.filter((one) => one === word).length]));

const divisor = (a, b) => (b ? divisor(b, a % b) : a);

/** A number from 0 on as it is written: `0.1` is a tenth. */
function exact(number) {
  const parts = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(JSON.stringify(number));
  const [, int, part = "", power = "0"] = parts;
  const digits = BigInt(int + part);
  const scale = Number(power) - part.length;
  return scale < 0 ? ratio(digits, 10n ** BigInt(-scale)) : whole(digits * 10n ** BigInt(scale));
}

/** A quotient as the nearest whole number, a half as the even one; neither is below 0. */
function divided(n, d) {
  const [quotient, rest] = [n / d, n % d];
  const isUp = 2n * rest > d || (2n * rest === d && quotient % 2n);
  return isUp ? quotient + 1n : quotient;
}
/** A value as documents have it: to nine places, half-even. */
const published = (f) => (f === null ? null : Number(divided(f.n * NANO, f.d)) / 1e9);

function billionths(value) {
  if (typeof value !== "number" || value < 0 || value > 1) return null;
  const { n, d } = exact(value);
  return divided(n * NANO, d);
}

const DAY = 86_400_000_000n;

/** Microseconds since 1970 of a time such as 2026-01-31T00:00:00.000000Z. */
function moment(text) {
  const [, second, part = ""] = /^(.{19})(?:\.(\d{1,6}))?Z$/.exec(text) ?? [];
  const at = Date.parse(`${second}Z`);
  // Date.parse lets the 31st of a short month be the next day.
  const isDay = Number.isFinite(at) && new Date(at).toISOString().startsWith(second);
  expect(isDay, `not a time: ${show(text)}`);
  return BigInt(at) * 1000n + BigInt(part.padEnd(6, "0"));
}
function writtenTime(at) {
  const seconds = new Date(Number(at / 1000n)).toISOString().slice(0, 19);
  return `${seconds}.${String(at % 1_000_000n).padStart(6, "0")}Z`;
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
    if (token[0] === '"') continue;
    const size = Math.abs(Number(token));
    const isHuge = /[.eE]/.test(token) && size >= 1e21 && size < Infinity;
    expect(size <= Number.MAX_SAFE_INTEGER || isHuge,
      `${what}: expected a double, and integers within 2^53 - 1`);
  }
  // Of two members of one name JSON.parse has kept one.
  expect(names === membersIn(value, what, 1), `${what}: expected every member once`);
  return value;
}

/** How many members there are at all depths; raises for a value that is none of RFC 8785. */
function membersIn(value, what, depth) {
  if (typeof value === "string") expect(value.isWellFormed(), `${what}: a lone surrogate`);
  if (value === null || typeof value !== "object") return 0;
  expect(depth <= MAX_DEPTH, `${what}: expected at most 64 levels`);
  if (Array.isArray(value))
    return value.reduce((all, item) => all + membersIn(item, what, depth + 1), 0);
  // Without a prototype: `constructor` is a name as any other.
  Object.setPrototypeOf(value, null);
  let members = 0;
  for (const name of Object.keys(value)) {
    expect(name.isWellFormed(), `${what}: a lone surrogate`);
    members += 1 + membersIn(value[name], what, depth + 1);
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
function same(what, wanted, found) {
  const isSame = (a, b) => a !== undefined && b !== undefined && canonical(a) === canonical(b);
  if (isSame(wanted, found)) return;
  if (isObject(wanted) && isObject(found))
    for (const name of Object.keys({ ...wanted, ...found }).sort())
      if (!isSame(wanted[name], found[name])) same(`${what}/${name}`, wanted[name], found[name]);
  const [expected, got] = [show(wanted), show(found)];
  throw new Defect(`${what}: expected ${expected}, got ${got}`, { expected, got });
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
const unhex = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));
const digest = async (bytes, name = "SHA-256") => new Uint8Array(await subtle.digest(name, bytes));
const sha256 = async (bytes) => hex(await digest(bytes));
const sameBytes = (a, b) => a.length === b.length && a.every((byte, at) => byte === b[at]);

function joined(...parts) {
  const all = new Uint8Array(sum(parts.map((part) => part.length), 0));
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

// ---- 13 The command ----

// What page.js uses: a page that is one file has no address to import a module from.
globalThis.echelonVerify = { verify, needs: subtle ? null : NEEDS_CRYPTO };

/** The files of a folder; links lead elsewhere, and are refused. */
export async function readFolder(folder, above = "", files = new Map()) {
  const { readdir, readFile } = await import("node:fs/promises");
  for (const entry of await readdir(`${folder}/${above}`, { withFileTypes: true })) {
    const path = `${above}${entry.name}`;
    if (entry.isDirectory()) await readFolder(folder, `${path}/`, files);
    else if (entry.isFile()) files.set(path, new Uint8Array(await readFile(`${folder}/${path}`)));
    else throw new Error(`expected files and folders only, got ${path}`);
  }
  return files;
}

async function main(words) {
  // Names are a stranger's: none may steer a terminal.
  const plain = (text) => text.replace(/[^\x20-\x7e]/gu, "?");
  let result;
  try {
    const { readFile } = await import("node:fs/promises");
    const { parseArgs } = await import("node:util");
    const options = { trust: { type: "string" } };
    const { values, positionals } = parseArgs({ args: words, options, allowPositionals: true });
    expect(positionals.length === 1, "expected one bundle");
    const files = await readFolder(positionals[0]);
    expect(files.has("certificate.json"), "expected an evidence bundle with a certificate.json");
    result = await verify(files, { trust: values.trust && await readFile(values.trust) });
  } catch (error) {
    console.error(`${plain(error.message)}\nusage: node verify.js BUNDLE [--trust trust.json]`);
    return 2;
  }
  for (const { status, id, why } of result.lines)
    console.log(plain(`${status.padEnd(12)} ${id}${why ? `: ${why}` : ""}`));
  console.log(plain(result.verdict.replace("in your browser", "here")));
  return result.ok ? 0 : 1;
}

// In Node, and started as a program; a page has neither.
if (globalThis.process?.versions?.node && globalThis.process.argv[1]) {
  const { pathToFileURL } = await import("node:url");
  const { realpathSync } = await import("node:fs");
  if (import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href)
    process.exitCode = await main(process.argv.slice(2));
}
