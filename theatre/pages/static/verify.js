/**
 * Recompute what an evidence bundle of Echelon Theatre claims, in a browser or with Node:
 *
 *     node verify.js BUNDLE [--trust trust.json] [--json]
 *
 * where BUNDLE is its folder or its archive. Exit code 0: no line failed; 1: one did; 2: no bundle.
 *
 * No dependency but WebCrypto. In: a map of paths to bytes. Out: a line for each check, by the ids
 * of `echelon check`. It runs no scorer, no computation, no sanitiser and no resampling: what needs
 * these is "not checked", by name. Written from docs/contract; docs/check.md says what is left out.
 * It reads a stranger's bytes: what is missing or of another form raises, and its line has failed.
 */

export const OK = "ok";
export const FAILED = "failed";
export const UNCHECKED = "not checked";

/** Why a check is not made here. They stand in a result as lines of their own. */
const NOT_MADE = {
  "certificate-schema": "no JSON Schema here; certificate-fields computes every member again",
  invocations: "the requests of each call are not built again here",
  "sanitised-input": "no sanitiser is in a browser",
  "version-pins": "as invocations",
  scorers: "no scorer is in a browser: a line's scores are taken from scores/per_episode.jsonl",
  "human-scores": "who may rate, and when, is not checked here",
  "data-audit": "it needs Unicode case folding, which browsers have not",
  baselines: "only a scorer can say what trivial answers score",
  resolution: "its steps run computations",
  closure: "only a log can say whether what was committed is closed: echelon check --online",
};
/** The lines of a result, in the order of `echelon check`. */
export const IDS = [
  "inventory", "sums", "canonical-form", "bundle-hash", "manifest", "certificate-schema",
  "certificate-copy", "template", "commitment", "coin", "datasets", "audit-chain",
  "audit-episodes", "times", "invocations", "sanitised-input", "version-pins", "scorers",
  "outcomes", "scores", "human-scores", "aggregate", "results-hash", "data-audit", "baselines",
  "resolution", "tier", "certificate-fields", "signature", "signer-trusted",
  "commitment-logged", "certificate-logged", "order", "witnesses", "closure",
];

/** Something in the bundle is not as it must be. */
export class Defect extends Error {
  constructor(message, expected = "", got = "") {
    super(message);
    Object.assign(this, { expected, got });
  }
}
/** A check that cannot be made here, or with what is at hand: neither right nor wrong. */
class Unsettled extends Error {}

// ---- Bytes and hashes ----

const utf8 = new TextEncoder();
const subtle = globalThis.crypto?.subtle;
const bytesOf = (text) => utf8.encode(text);
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const digest = async (bytes, name = "SHA-256") => new Uint8Array(await subtle.digest(name, bytes));
const sha256 = async (bytes) => hex(await digest(bytes));
const sameBytes = (a, b) => a.length === b.length && a.every((byte, at) => byte === b[at]);
const isSha256 = (value) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);

function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The text of bytes in UTF-8. A mark of byte order is a character here, and no JSON. */
function textOf(bytes) {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}

/** Bytes of base64 in its one spelling: two spellings of one signature would be two documents. */
function unbase64(text) {
  if (typeof text !== "string" || !/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4)
    throw new Defect(`expected base64, got ${show(text)}`);
  const binary = atob(text);
  if (btoa(binary) !== text) throw new Defect("expected base64 as encoding gives it");
  return Uint8Array.from(binary, (sign) => sign.charCodeAt(0));
}

/** Order by code points, which is that of bytes in UTF-8; sort() goes by halves of pairs. */
function byCodePoint(a, b) {
  const [one, other] = [[...a], [...b]];
  for (let at = 0; at < one.length && at < other.length; at++)
    if (one[at] !== other[at]) return one[at].codePointAt(0) - other[at].codePointAt(0);
  return one.length - other.length;
}
const sorted = (texts) => [...texts].sort(byCodePoint);

// ---- Strict JSON and RFC 8785 (docs/contract/evidence.md §1) ----

const MAX_DEPTH = 64;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const SPACE = /[ \t\n\r]*/y;

/**
 * The value of a JSON document. JSON.parse would take the last of two members of one name, round a
 * big integer and let half a surrogate pair pass: of each, two programs read different documents.
 */
export function parseJson(bytes, what = "document") {
  let text;
  try {
    text = textOf(bytes);
  } catch {
    throw new Defect(`${what}: expected UTF-8`);
  }
  let at = 0;
  const fail = (why) => {
    throw new Defect(`${what}: ${why} at character ${at}`);
  };
  const match = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const take = (sign) => {
    match(SPACE);
    return text[at] === sign && ++at > 0;
  };
  const string = () => {
    const start = at++;
    for (;;) {
      match(PLAIN);
      if (text[at] === '"') break;
      if (text[at] !== "\\" || at + 1 >= text.length) fail("expected a string");
      at += 2;
    }
    at++;
    let value;
    try {
      value = JSON.parse(text.slice(start, at)); // one string alone, without control characters
    } catch {
      fail("expected a string");
    }
    if (!value.isWellFormed()) fail("expected Unicode, got a lone surrogate");
    return value;
  };
  const number = () => {
    const found = match(NUMBER);
    if (!found) fail("expected a value");
    const value = Number(found[0]);
    const isWhole = found[1] === undefined && found[2] === undefined;
    const size = Math.abs(value);
    if (!Number.isFinite(value)) fail("expected a double");
    if (size > Number.MAX_SAFE_INTEGER && (isWhole || size < 1e21))
      fail("expected integers within 2^53 - 1");
    return value;
  };
  const value = (depth) => {
    match(SPACE);
    const sign = text[at];
    if ((sign === "{" || sign === "[") && depth === MAX_DEPTH) fail("expected at most 64 levels");
    if (sign === "{") {
      at++;
      // Without a prototype: `__proto__` is a name as any other.
      const members = Object.create(null);
      if (take("}")) return members;
      do {
        match(SPACE);
        if (text[at] !== '"') fail("expected a name");
        const name = string();
        if (name in members) fail("expected every member once, got one twice");
        if (!take(":")) fail("expected a colon");
        members[name] = value(depth + 1);
      } while (take(","));
      return take("}") ? members : fail("expected , or }");
    }
    if (sign === "[") {
      at++;
      const items = [];
      if (take("]")) return items;
      do items.push(value(depth + 1));
      while (take(","));
      return take("]") ? items : fail("expected , or ]");
    }
    if (sign === '"') return string();
    for (const [word, meant] of [["true", true], ["false", false], ["null", null]])
      if (text.startsWith(word, at)) {
        at += word.length;
        return meant;
      }
    return number();
  };
  const whole = value(0);
  match(SPACE);
  return at === text.length ? whole : fail("expected the end");
}

/** The RFC 8785 text of a JSON value. What is undefined has none: a missing member raises here. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object")
    return `{${Object.keys(value)
      .sort() // by UTF-16 units, as RFC 8785 has it
      .map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`)
      .join(",")}}`;
  if (typeof value === "number" && Number.isFinite(value)) return String(value); // -0 is 0
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  throw new Defect(`expected a JSON value, got ${typeof value}`);
}

function show(value) {
  const text = value === undefined ? "nothing" : canonical(value);
  return text.length > 90 ? `${text.slice(0, 90)}…` : text;
}

/** Raise at the first place at which two JSON values differ. */
function same(what, expected, got) {
  if (expected !== undefined && got !== undefined && canonical(expected) === canonical(got)) return;
  if (isObject(expected) && isObject(got))
    for (const name of Object.keys({ ...expected, ...got }).sort())
      if (!hasOwn(got, name) || canonical(expected[name] ?? null) !== canonical(got[name] ?? null)
        || !hasOwn(expected, name)) same(`${what}/${name}`, expected[name], got[name]);
  const [wanted, found] = [show(expected), show(got)];
  throw new Defect(`${what}: expected ${wanted}, got ${found}`, wanted, found);
}
const hasOwn = (value, name) => Object.prototype.hasOwnProperty.call(value, name);
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function expect(holds, message) {
  if (!holds) throw new Defect(message);
}

// ---- Exact numbers: pairs of big integers. A score is the decimal that it is written as. ----

const NANO = 10n ** 9n;
const Z = 1.959963984540054;
const gcd = (a, b) => (b ? gcd(b, a % b) : a < 0n ? -a : a);
function ratio(n, d) {
  if (!d) return null;
  const by = gcd(n, d) || 1n;
  return { n: n / by, d: d / by };
}
const plus = (a, b) => ratio(a.n * b.d + b.n * a.d, a.d * b.d);
const times = (a, b) => ratio(a.n * b.n, a.d * b.d);
const minus = (a, b) => plus(a, { n: -b.n, d: b.d });
const less = (a, b) => a.n * b.d < b.n * a.d;
const whole = (n) => ({ n: BigInt(n), d: 1n });
const total = (values) => values.reduce(plus, whole(0));
const toNumber = (f) => Number((f.n * 10n ** 30n) / f.d) / 1e30;
const lcm = (values) => values.reduce((a, b) => (a / gcd(a, b)) * b, 1n);

function exact(number) {
  expect(typeof number === "number", `expected a number, got ${show(number)}`);
  const [, sign, int, part = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(
    String(number),
  );
  const [digits, scale] = [BigInt(sign + int + part), Number(power) - part.length];
  return scale < 0 ? ratio(digits, 10n ** BigInt(-scale)) : whole(digits * 10n ** BigInt(scale));
}

/** A quotient as the nearest whole number, a half as the even one. */
function divided(n, d) {
  let quotient = n / d;
  if (quotient * d > n) quotient -= 1n; // towards minus infinity, not to 0
  const rest = n - quotient * d;
  return quotient + (2n * rest > d || (2n * rest === d && quotient % 2n) ? 1n : 0n);
}
/** A value as documents have it: to nine places, half-even. */
const published = (f) => (f === null ? null : Number(divided(f.n * NANO, f.d)) / 1e9);
const asNumber = (nano) => (nano === null ? null : Number(nano) / 1e9);
const round6 = (number) => Number(number.toFixed(6));

function billionths(value) {
  if (typeof value !== "number" || !(value >= 0 && value <= 1)) return null;
  const { n, d } = exact(value);
  return divided(n * NANO, d);
}

/** Wilson's interval for a share, to six places. */
export function wilson(right, number) {
  const [share, square] = [right / number, Z * Z];
  const centre = (share + square / (2 * number)) / (1 + square / number);
  let half = Z * Math.sqrt((share * (1 - share)) / number + square / (4 * number ** 2));
  half /= 1 + square / number;
  return [right === 0 ? 0 : round6(centre - half), right === number ? 1 : round6(centre + half)];
}

// ---- Times, ids, draws ----

const TIME = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{6})Z$/;

/** Microseconds since 1970 of a time as documents have it. */
function moment(text) {
  const part = typeof text === "string" ? TIME.exec(text) : null;
  const at = part && Date.parse(`${text.slice(0, 19)}Z`);
  // Date.parse lets the 31st of a short month be the next day.
  expect(part && new Date(at).toISOString().slice(0, 19) === text.slice(0, 19),
    `expected a time such as 2026-01-31T00:00:00.000000Z, got ${show(text)}`);
  return BigInt(at) * 1000n + BigInt(part[7]);
}
const DAY = 86_400_000_000n;
function writtenTime(at) {
  const seconds = new Date(Number(at / 1000n)).toISOString().slice(0, 19);
  return `${seconds}.${String(at % 1_000_000n).padStart(6, "0")}Z`;
}
/** A span as the tier's assessment writes it: `1 day, 2:03:04`. */
function writtenSpan(span) {
  const [days, rest] = [span / DAY, span % DAY];
  const two = (n) => String(n).padStart(2, "0");
  const [seconds, micros] = [rest / 1_000_000n, rest % 1_000_000n];
  const clock = `${seconds / 3600n}:${two((seconds / 60n) % 60n)}:${two(seconds % 60n)}`;
  const shown = micros ? `${clock}.${String(micros).padStart(6, "0")}` : clock;
  return days ? `${days} day${days === 1n ? "" : "s"}, ${shown}` : shown;
}

async function uuid5(namespace, name) {
  const id = (await digest(joined(unhex(namespace.replaceAll("-", "")), bytesOf(name)), "SHA-1"))
    .slice(0, 16);
  id[6] = (id[6] & 0x0f) | 0x50;
  id[8] = (id[8] & 0x3f) | 0x80;
  return hex(id).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

async function hmac(key, message) {
  const kept = await subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false,
    ["sign"]);
  return new Uint8Array(await subtle.sign("HMAC", kept, message));
}

/** The root over leaf hashes (RFC 6962, 2.1). */
async function merkleRoot(leaves) {
  let row = leaves;
  while (row.length > 1) {
    const next = [];
    for (let at = 0; at < row.length; at += 2)
      next.push(at + 1 < row.length
        ? await digest(joined([1], row[at], row[at + 1])) : row[at]);
    row = next;
  }
  return hex(row[0]);
}

// ---- The bundle ----

const PROOFS = ["certificate.sigstore.json", "certificate.tlog-proof", "commitment.tlog-proof",
  "trust.json"].map((name) => `proofs/${name}`);
const REQUIRED = [
  "template.json", "commitment_receipt.json", "coin.txt", "ground_truth/dataset.jsonl",
  "scores/per_episode.jsonl", "scores/aggregate.json", "scores/data_audit.json",
  "scores/baselines.json", "resolution.json", "tier.json", "audit_trail.jsonl", "manifest.json",
  "SHA256SUMS",
];
const UNSUMMED = ["manifest.json", "SHA256SUMS", "certificate.json", "reproduction.json"];
const PER_PART = 1000;
/** The file, and the line in it, of the record of an episode. */
function placeOf(seq, episodes) {
  if (episodes <= PER_PART) return [`invocations/episode_${String(seq).padStart(6, "0")}.json`, 1];
  const part = Math.floor((seq - 1) / PER_PART);
  return [`invocations/part-${String(part + 1).padStart(5, "0")}.jsonl`, (seq - 1) % PER_PART + 1];
}

/**
 * What is read of a bundle. A step is made once; where it raises, every check that rests on it
 * raises the same. So no defect hides behind another.
 */
class Evidence {
  #made = new Map();
  constructor(files, options) {
    Object.assign(this, { files, ...options });
    this.paths = sorted([...files.keys()].filter((path) => !PROOFS.includes(path)));
    this.notes = [];
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
  get policy() { return this.template.execution_policy ?? {}; }
  get isReproduction() {
    return !this.files.has("certificate.json") && this.files.has("reproduction.json");
  }
  /** Without all of its episodes: its template withholds some. */
  get isPublished() { return this.files.has("episodes.jsonl"); }
  details(event) {
    return this.trail.filter((one) => one.event_type === event).map((one) => one.detail);
  }
  only(event) {
    const found = this.details(event);
    expect(found.length === 1, `audit_trail.jsonl: expected one entry ${event}, got ${found.length}`);
    return found[0];
  }
  get activated() { return this.only("activated"); }
  get chain() {
    const steps = this.template.resolution_programme.filter(
      (step) => step.type === "construct_invocation").map((step) => step.construct_id);
    return this.config.construct_chain ?? [...new Set(steps)];
  }
  get commitmentHash() {
    return this.once("commitment hash", () => sha256(bytesOf(canonical({
      dataset_hashes: this.template.dataset_hashes,
      template: this.template,
      version_pins: this.template.version_pins,
    }))));
  }
  get coin() {
    const text = textOf(this.raw("coin.txt"));
    expect(/^[0-9a-f]{64}\n$/.test(text), "coin.txt: expected 64 hex digits and a line feed");
    return unhex(text.trim());
  }
  get nonce() { return unhex(this.activated.run_nonce ?? ""); }
  /** What the coin draws for a purpose (docs/contract/earned.md §4). */
  async draw(purpose, ...parts) {
    const key = await this.once("draws", async () => subtle.importKey("raw",
      await hmac(this.coin, this.nonce), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]));
    const asked = canonical([purpose, await this.commitmentHash, ...parts]);
    return new Uint8Array(await subtle.sign("HMAC", key, bytesOf(asked)));
  }
  get dataset() {
    return this.once("dataset", () => {
      const episodes = this.values("ground_truth/dataset.jsonl");
      const ids = episodes.map((one) => one.episode_id);
      expect(episodes.length && new Set(ids).size === ids.length
        && ids.every((id) => typeof id === "string"),
        "ground_truth/dataset.jsonl: expected a new episode_id on each line");
      return episodes;
    });
  }
  get goldIsUnpinned() {
    return (this.config.gold_label_set ?? null) !== null
      && !hasOwn(this.template.dataset_hashes, this.config.gold_label_dataset_id ?? "gold_labels");
  }
  /** File below ground_truth/ → the dataset that it is. */
  get groundTruth() {
    const files = { "dataset.jsonl": this.config.replay_dataset_id };
    if ((this.config.gold_label_set ?? null) !== null && !this.goldIsUnpinned)
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
  /** seq → what the record of an episode says, as far as results depend on it. */
  get records() {
    return this.once("records", () => {
      const found = new Map();
      for (const path of this.paths.filter((one) => one.startsWith("invocations/")))
        this.lines(path).forEach(([raw, record], at) => {
          const [wanted, line] = placeOf(record.seq, this.dataset.length);
          // In its place, so that no episode is there twice with the better of two answers.
          expect(path === wanted && line === at + 1
            && record.seq <= this.dataset.length, `${path}: a record of another episode`);
          found.set(record.seq, { raw: joined(raw, [10]), ...asked(record, this.playsTurns, this.repeats) });
        });
      return found;
    });
  }
  get repeats() { return this.policy.repeats ?? 1; }
  get playsTurns() { return (this.config.episode_runner ?? "single_call") !== "single_call"; }
  get rubrics() {
    const entries = this.template.hitl_steps ?? [];
    const found = new Map(entries.map((entry) => [entry.step_id, entry]));
    expect(found.size === entries.length, "template.json: a rubric for one step_id twice");
    return found;
  }
}

const STATUSES = ["success", "timeout", "error", "refused"];

/** Which repeat an episode's status is that of: the first success, else the first failure. */
function deciding(statuses) {
  const found = [["success"], ["timeout", "error"]].map((wanted) =>
    statuses.findIndex((status) => wanted.includes(status)));
  return found.find((at) => at >= 0) ?? 0;
}

function asked(record, playsTurns, repeats) {
  const numbers = [...new Set(record.calls.map((call) => call.repeat))];
  const lasts = numbers.map((n) => record.calls.findLast((call) => call.repeat === n));
  const statuses = lasts.map((call) => call.attempts.at(-1).response.status);
  const answering = lasts[deciding(statuses)];
  const first = record.calls.filter((call) => call.repeat === 0);
  const second = record.calls.filter((call) => call.repeat === 1);
  const end = (call) => call.attempts.at(-1);
  const { response, reason } = end(answering);
  expect(statuses.every((status) => STATUSES.includes(status))
    && (repeats === 1 || numbers.length === repeats && numbers.every((n, at) => n === at)),
    `record ${record.seq}: expected a status of each repeat`);
  const answer = playsTurns ? record.episode_result : response.output_data;
  const outputs = (calls) => canonical(calls.map((call) => end(call).response.output_data));
  const times = record.calls.map((call) => [call.request.metadata.invoked_at,
    ...call.attempts.map((one) => one.response.responded_at)].map(moment));
  return {
    status: response.status,
    statuses,
    sent: record.calls[0].request.input_data,
    confidence: isObject(answer) ? answer.confidence ?? null : null,
    calls: record.calls,
    mismatches: record.calls.flatMap((call) => call.attempts)
      .filter((one) => one.reason === "version-mismatch").length,
    differs: repeats === 1 && second.length > 0 && (first.length !== second.length
      || second.some((call) => end(call).response.status !== "success")
      || outputs(first) !== outputs(second)),
    times,
    trouble: {
      seq: record.seq, episode_id: record.episode_id, construct_id: answering.construct_id,
      hop: answering.hop, status: response.status, reason, error_detail: response.error_detail,
    },
  };
}

// ---- From the lines to the aggregate (docs/contract/scoring.md) ----

const TEXTUAL = ["contains_terms", "debate_quality", "lexical_precision", "lexical_recall",
  "lexical_reply_accuracy", "sequence_similarity"];
const EXACT = ["brier", "debate_transitions", "exact_match", "field_match", "freshness_decay",
  "harness_score", "hash_chain", "json_schema", "label_accuracy", "numeric_tolerance",
  "planted_faults", "record_completeness", "set_f1", "text_match", "timestamp_order"];
const WITHOUT_TRUTH = ["contains_terms", "debate_quality", "freshness_decay", "harness_score",
  "json_schema", "lexical_precision", "llm_judge", "record_completeness", "timestamp_order"];
const GAPS = ["missing", "not_applicable", "declined", "unscored"];
const WORDS = ["scored", ...GAPS];
const COMPOSITE = "composite_score";

/** What a scorer's scores rest on: of shipped ones by the table, of others as stated. */
function kindOf(scorer, stated) {
  if (TEXTUAL.includes(scorer)) return "textual";
  if (EXACT.includes(scorer)) return "exact";
  if (scorer === "llm_judge") return "judged";
  return ["exact", "textual", "judged"].includes(stated[scorer]) ? stated[scorer] : "textual";
}

/** What a template says about how scores are added up. */
function planOf(template) {
  const scoring = template.scoring ?? {};
  const policy = template.execution_policy ?? {};
  const own = scoring.criteria_scorers ?? {};
  const ids = template.criteria.criteria_ids;
  const stated = template.criteria.weights;
  const isEqual = !stated || !Object.keys(stated).length;
  const weights = ids.map((id) => exact(isEqual ? 1 : stated[id] ?? 0));
  const scale = lcm(weights.map((weight) => weight.d));
  const labelled = ids.filter((id) => own[id]?.scorer === "label_accuracy");
  const shared = (template.hitl_steps ?? []).filter(
    (step) => (step.share ?? null) !== null && (step.criterion_id ?? null) !== null);
  return {
    ids,
    shares: weights.map((weight) => (weight.n * scale) / weight.d),
    split: exact(scoring.holdout_split ?? 0.2),
    most: exact(policy.max_refusal_rate ?? 0.5),
    threshold: (policy.on_threshold ?? "settle") === "settle"
      ? exact(policy.failure_threshold ?? 0.2) : null,
    repeats: policy.repeats ?? 1,
    calibrated: policy.repeats > 1 ? null
      : scoring.calibration_criterion !== undefined ? scoring.calibration_criterion
        : labelled.length === 1 ? labelled[0] : null,
    people: new Map(shared.map((step) => [step.criterion_id, exact(step.share)])),
    scorer: (id) => !Object.keys(own).length
      ? ["exact_match", { field: id, expected: id }] : [own[id].scorer, own[id].params ?? {}],
  };
}

function weighted(plan, means) {
  if (plan.ids.some((id) => means[id] === null)) return null;
  const sum = total(plan.ids.map((id, at) => times(whole(plan.shares[at]), means[id])));
  return times(sum, ratio(1n, plan.shares.reduce((a, b) => a + b, 0n)));
}

const NOWHERE = Symbol("nowhere");
/** What an answer is held against on a criterion; NOWHERE where the ground truth has nothing. */
function expectation(evidence, plan, id, episode) {
  const [scorer, params] = plan.scorer(id);
  let [path, truth] = [params.expected ?? null, episode.expected_output ?? null];
  if (path === null) return truth === null && !WITHOUT_TRUTH.includes(scorer) ? NOWHERE : truth;
  if (path.startsWith("gold:"))
    [path, truth] = [path.slice(5), evidence.gold.get(episode.episode_id) ?? null];
  if (truth === null) return NOWHERE;
  for (const step of path ? path.split(".") : []) {
    const isItem = Array.isArray(truth) && /^(0|[1-9][0-9]{0,8})$/.test(step);
    if (isItem ? Number(step) >= truth.length : !isObject(truth) || !hasOwn(truth, step))
      return NOWHERE;
    truth = truth[step];
  }
  return truth;
}

/** The run added up, episode by episode, and its lines as they must be. */
async function tallied(evidence) {
  const plan = planOf(evidence.template);
  const stated = evidence.values("scores/per_episode.jsonl");
  const { dataset, records } = evidence;
  expect(stated.length === dataset.length, `expected a line for each of ${dataset.length} episodes`);
  const hash = await evidence.commitmentHash;
  const counts = evidence.aggregate.score_counts;
  const declined = Object.fromEntries(plan.ids.map((id) => [id, counts[id].declined]));
  const none = (words) => Object.fromEntries(words.map((word) => [word, 0]));
  const run = {
    plan, lines: [], rows: [], ended: false, clusters: new Map(), loose: [],
    statuses: none(STATUSES), outcomes: none(["scored", "missing", "excluded", "unscored", "not_run"]),
    verdicts: Object.fromEntries(plan.ids.map((id) => [id, none([...WORDS, "excluded", "not_run"])])),
    bins: Array.from({ length: 10 }, () => [0n, 0n, 0n]), squares: 0n, silent: 0, undecided: 0,
    repeated: [], answers: none(STATUSES),
  };
  let failed = 0;
  for (const [at, episode] of dataset.entries()) {
    const record = records.get(at + 1);
    // Behind the end of a run nothing counts, whatever is recorded.
    const status = run.ended || !record ? "not_run" : record.status;
    const gap = { timeout: "missing", error: "missing", refused: "excluded", not_run: "not_run" };
    const verdicts = plan.ids.map((id) => {
      if (status === "not_run") return "not_run";
      if (expectation(evidence, plan, id, episode) === NOWHERE) return "not_applicable";
      if (status !== "success") return gap[status];
      const score = stated[at].scores[id];
      if (typeof score === "number" && plan.repeats > 1)
        return divided(repeatsOf(stated[at], record, id).reduce((a, b) => a + b), BigInt(plan.repeats));
      if (typeof score === "number") return billionths(score) ?? "unscored";
      // A line does not tell `declined` from `unscored`, and no mean differs between the two.
      return declined[id]-- > 0 ? "declined" : "unscored";
    });
    const isNumber = (verdict) => typeof verdict === "bigint";
    const outcome = status === "success"
      ? verdicts.some(isNumber) ? "scored" : "unscored" : gap[status];
    if (status !== "not_run") run.statuses[status]++;
    run.outcomes[outcome]++;
    plan.ids.forEach((id, n) => run.verdicts[id][isNumber(verdicts[n]) ? "scored" : verdicts[n]]++);
    const answers = status === "not_run" || plan.repeats === 1 ? [] : record.statuses;
    answers.forEach((one) => run.answers[one]++);
    failed += plan.repeats > 1 ? answers.filter((one) => gap[one] === "missing").length
      : Number(outcome === "missing");
    if (plan.threshold
      && less(times(plan.threshold, whole(dataset.length * plan.repeats)), whole(failed)))
      run.ended = true;
    // The commitment hash draws the holdout.
    const drawn = hex(await digest(bytesOf(`${hash}:${episode.episode_id}`))).slice(0, 16);
    const holdout = BigInt(`0x${drawn}`) * plan.split.d < plan.split.n * 2n ** 64n;
    const counted = verdicts.map((one) => isNumber(one) ? one : one === "missing" ? 0n : null);
    const unit = counted.map((value) => [value ?? 0n, value === null ? 0n : 1n]);
    const each = answers.length ? counted.map((value, n) => value === null ? null
      : status === "success" ? repeatsOf(stated[at], record, plan.ids[n])
        : answers.map(() => 0n)) : null;
    if (each) run.repeated.push(each);
    if (status !== "not_run") {
      run.rows.push({ holdout, counted, unit });
      const key = episode.cluster_key ?? null;
      if (key === null) run.loose.push(unit);
      else if (!run.clusters.has(key)) run.clusters.set(key, unit.map((pair) => [...pair]));
      else run.clusters.get(key).forEach((pair, n) => {
        pair[0] += unit[n][0];
        pair[1] += unit[n][1];
      });
    }
    if (plan.calibrated !== null)
      calibrate(run, verdicts[plan.ids.indexOf(plan.calibrated)], record?.confidence);
    const numbers = plan.shares.map((share, n) => [share, counted[n]]).filter(([, v]) => v !== null);
    const share = numbers.reduce((sum, [one]) => sum + one, 0n);
    run.lines.push({
      seq: at + 1, episode_id: episode.episode_id, outcome,
      scores: Object.fromEntries(plan.ids.map((id, n) => [id, asNumber(counted[n])])),
      composite: share
        ? asNumber(divided(numbers.reduce((sum, [one, v]) => sum + one * v, 0n), share)) : null,
      holdout,
      ...(plan.repeats === 1 ? {} : { repeats: each && { statuses: answers,
        scores: Object.fromEntries(plan.ids.map((id, n) => [id, each[n]?.map(asNumber) ?? null])) } }),
    });
  }
  run.number = dataset.length - run.outcomes.not_run;
  return run;
}

/** What each repeat counts on a criterion: as its line states, 0 where there was no answer. */
function repeatsOf(line, record, id) {
  const own = line.repeats.scores[id];
  expect(Array.isArray(own) && own.length === record.statuses.length,
    `line ${line.seq}: expected a score of each repeat`);
  return own.map((value, at) => record.statuses[at] === "success" ? billionths(value) ?? 0n : 0n);
}

const choose = (n, j) => {
  let found = 1n;
  for (let at = 0; at < j; at++) found = (found * BigInt(n - at)) / BigInt(at + 1);
  return n < j ? 0n : found;
};
const interval = (method, [low, high]) => ({ method, low, high, level: 0.95 });

/** Between and within episodes, and what the same episodes would score (scoring.md §9). */
function repeatsDocument(run, scores, composite) {
  const { plan, answers } = run;
  const k = plan.repeats;
  const asked = STATUSES.reduce((sum, word) => sum + answers[word], 0);
  const failures = answers.timeout + answers.error;
  const of = (place) => run.repeated.map((row) => row[place]).filter((row) => row !== null);
  const theseItems = (score, shares) => {
    const used = shares.map((_, at) => at).filter((at) => shares[at]);
    const all = shares.reduce((a, b) => a + b, 0n);
    const items = used.map((at) => BigInt(of(at).length));
    if (score === null || items.some((n) => !n)) return interval("undefined", [null, null]);
    const scale = lcm(items);
    let variance = 0n;
    for (const row of run.repeated) {
      const adds = Array.from({ length: k }, (_, n) => used.reduce((sum, at, place) =>
        sum + (row[at] === null ? 0n : shares[at] * (scale / items[place]) * row[at][n]), 0n));
      const sum = adds.reduce((a, b) => a + b);
      variance += adds.reduce((a, b) => a + b * b, 0n) * BigInt(k) - sum * sum;
    }
    if (!variance) return interval("undefined", [null, null]);
    const error = ratio(variance, BigInt(k * k * (k - 1)) * (scale * all * NANO) ** 2n);
    const [mean, half] = [toNumber(score), Z * Math.sqrt(toNumber(error))];
    return interval("within_item_normal",
      [round6(Math.max(mean - half, 0)), round6(Math.min(mean + half, 1))]);
  };
  const passes = (rows) => {
    if (!rows.length || rows.flat().some((one) => one !== 0n && one !== NANO)) return null;
    const right = rows.map((row) => row.filter((one) => one === NANO).length);
    const share = (j, draw) => ratio(right.reduce((sum, c) => sum + choose(draw(c), j), 0n),
      BigInt(rows.length) * choose(k, j));
    const steps = Array.from({ length: k }, (_, at) => at + 1);
    const bounds = (count) => rows.length < 2 || run.clusters.size
      ? interval("undefined", [null, null]) : interval("wilson", wilson(count, rows.length));
    return {
      any: steps.map((j) => published(minus(whole(1), share(j, (c) => k - c)))),
      any_interval: bounds(right.filter((c) => c > 0).length),
      all: steps.map((j) => published(share(j, (c) => c))),
      all_interval: bounds(right.filter((c) => c === k).length),
    };
  };
  const criterion = (place) => {
    const rows = of(place);
    const [n, unit] = [BigInt(rows.length), BigInt(k) * NANO];
    const sums = rows.map((row) => row.reduce((a, b) => a + b));
    const squares = rows.map((row, at) => row.reduce((a, b) => a + b * b, 0n) * BigInt(k)
      - sums[at] ** 2n).reduce((a, b) => a + b, 0n);
    const within = ratio(squares, BigInt(k * (k - 1)) * n * NANO ** 2n);
    let between = null;
    if (rows.length >= 2) {
      const all = sums.reduce((a, b) => a + b);
      const spread = ratio(sums.reduce((a, b) => a + b * b, 0n) * n - all * all,
        n * (n - 1n) * unit ** 2n);
      between = minus(spread, times(within, ratio(1n, BigInt(k))));
      if (less(between, whole(0))) between = whole(0);
    }
    return {
      items: rows.length,
      items_that_vary: rows.filter((row) => row.some((one) => one !== row[0])).length,
      between_item_variance: published(between), within_item_variance: published(within),
      pass: passes(rows), these_items: theseItems(scores[plan.ids[place]], oneOf(plan, place)),
    };
  };
  return {
    k, asked, statuses: answers, failure_rate: published(ratio(BigInt(failures), BigInt(asked))),
    criteria: Object.fromEntries(plan.ids.map((id, place) => [id, criterion(place)])),
    composite_score: { these_items: theseItems(composite, plan.shares) },
  };
}

/** The certificate's member: what holds for items like these is in score_intervals. */
function bothEstimands({ repeats, score_intervals: like }) {
  if (repeats === undefined) return null;
  const criteria = Object.fromEntries(Object.entries(repeats.criteria)
    .map(([id, one]) => [id, { ...one, items_like_these: like[id] }]));
  const whole = { ...repeats.composite_score, items_like_these: like[COMPOSITE] };
  return { ...repeats, criteria, composite_score: whole };
}

function calibrate(run, verdict, confidence) {
  if (typeof verdict !== "bigint") return;
  const probability = billionths(confidence);
  if (verdict !== 0n && verdict !== NANO) run.undecided++;
  else if (probability === null) run.silent++;
  else {
    const place = Number((10n * probability) / NANO);
    const bin = run.bins[Math.min(place, 9)];
    bin[0]++;
    bin[1] += verdict / NANO;
    bin[2] += probability;
    run.squares += (probability - verdict) ** 2n;
  }
}

/** The mean of each criterion over the verdicts `words`; all but scored count `gap`. */
function meansOf(run, words, gap = 0) {
  return Object.fromEntries(run.plan.ids.map((id, at) => {
    const sum = run.rows.reduce((all, row) => all + (row.counted[at] ?? 0n), 0n);
    const gaps = words.reduce((all, word) => all + run.verdicts[id][word], 0);
    const number = BigInt(run.verdicts[id].scored + gaps);
    return [id, ratio(sum + BigInt(gap * gaps) * NANO, number * NANO)];
  }));
}

/** Scores with what people gave (docs/contract/evidence.md §9). */
function withPeople(run, machine, people) {
  const scores = { ...machine };
  for (const [id, share] of run.plan.people) {
    const [mean, given] = [machine[id], people[id] ?? null];
    scores[id] = given === null || (mean === null && less(share, whole(1))) ? null
      : plus(times(minus(whole(1), share), mean ?? whole(0)), times(share, given));
  }
  return scores;
}

/** What each unit adds to a weighted mean, less its share of it (docs/contract/scoring.md §5). */
function spreadOf(units, shares) {
  const add = (n, member) => units.reduce((sum, unit) => sum + unit[n][member], 0n);
  const numbers = shares.map((_, n) => add(n, 1));
  const sums = shares.map((_, n) => add(n, 0));
  const used = shares.map((_, n) => n).filter((n) => shares[n] && numbers[n]);
  const scale = lcm(used.map((n) => numbers[n] ** 2n));
  let [square, number] = [0n, 0];
  for (const unit of units) {
    if (!used.some((n) => unit[n][1])) continue;
    number++;
    const added = used.reduce((sum, n) => sum + ((shares[n] * scale) / numbers[n] ** 2n)
      * (unit[n][0] * numbers[n] - sums[n] * unit[n][1]), 0n);
    square += added ** 2n;
  }
  const all = shares.reduce((a, b) => a + b, 0n);
  return {
    number,
    least: shares.map((_, n) => units.filter((unit) => unit[n][1]).length),
    square: ratio(square, (scale * all * NANO) ** 2n),
  };
}
const oneOf = (plan, place) => plan.ids.map((_, at) => (at === place ? 1n : 0n));

/** The interval of a mean. Resampled bounds are taken as stated, and a note says so. */
function intervalOf(evidence, run, name, score, stated) {
  const { plan } = run;
  const place = plan.ids.indexOf(name);
  const isWhole = name === COMPOSITE;
  const prefix = run.clusters.size ? "cluster_" : "";
  const shares = isWhole ? plan.shares : oneOf(plan, place);
  const spread = spreadOf([...run.clusters.values(), ...run.loose], shares);
  const isMixed = isWhole ? plan.people.size > 0 : plan.people.has(name);
  const takenAs = (method) => {
    const { low, high } = stated[name];
    expect(typeof low === "number" && typeof high === "number" && 0 <= low && low <= high
      && high <= 1, `score_intervals/${name}: expected 0 ≤ low ≤ high ≤ 1`);
    evidence.notes.push(`aggregate: the ${method} bounds of ${name} are as the bundle has them`);
    return [method, low, high];
  };
  let found = ["undefined", null, null];
  if (score === null) found = ["undefined", null, null];
  else if (isMixed) {
    if (stated[name].method !== "undefined") found = takenAs(`${prefix}mixed_clt`);
  } else if (Math.min(...(isWhole ? spread.least : [spread.number])) < 2) {
    found = ["undefined", null, null];
  } else if (!isWhole && !prefix
    && run.rows.every(({ counted }) => [null, 0n, NANO].includes(counted[place])))
    found = ["wilson", ...wilson(Number((score.n * BigInt(spread.number)) / score.d), spread.number)];
  else if (spread.square.n && spread.number > 5000) {
    const n = BigInt(spread.number);
    const half = Z * Math.sqrt(toNumber(times(spread.square, ratio(n, n - 1n))));
    const mean = toNumber(score);
    found = [`${prefix}clt`, round6(Math.max(mean - half, 0)), round6(Math.min(mean + half, 1))];
  } else if (spread.square.n) found = takenAs(`${prefix}bca`);
  return { method: found[0], low: found[1], high: found[2], level: 0.95 };
}

function holdoutOf(run) {
  const { plan } = run;
  const parts = [false, true].map((held) => run.rows.filter((row) => row.holdout === held)
    .map((row) => row.unit));
  const means = parts.map((part) => {
    const found = Object.fromEntries(plan.ids.map((id, at) => [id, ratio(
      part.reduce((sum, unit) => sum + unit[at][0], 0n),
      NANO * part.reduce((sum, unit) => sum + unit[at][1], 0n))]));
    return { ...found, [COMPOSITE]: weighted(plan, found) };
  });
  const gap = {};
  for (const [at, name] of [...plan.ids, COMPOSITE].entries()) {
    const shares = name === COMPOSITE ? plan.shares : oneOf(plan, at);
    const [train, holdout] = means.map((values) => values[name]);
    const difference = train === null || holdout === null ? null : minus(train, holdout);
    const isFew = parts.some((part) => plan.ids.some((_, other) =>
      (name === COMPOSITE || other === at) && part.filter((unit) => unit[other][1]).length < 2));
    let beyond = null;
    if (difference !== null && !isFew) {
      const [all, one, other] = [parts.flat(), ...parts].map((units) => spreadOf(units, shares));
      const n = BigInt(all.number);
      const variance = times(all.square, ratio(n * n, n - 1n));
      const limit = times(times(exact(Z), exact(Z)), times(variance,
        plus(ratio(1n, BigInt(one.number)), ratio(1n, BigInt(other.number)))));
      beyond = less(limit, times(difference, difference));
    }
    gap[name] = { difference: published(difference), beyond_sampling_error: beyond };
  }
  const [train, holdout] = parts.map((part, at) => ({
    episodes: part.length,
    scores: Object.fromEntries(plan.ids.map((id) => [id, published(means[at][id])])),
    composite_score: published(means[at][COMPOSITE]),
  }));
  return { train, holdout, gap };
}

function calibrationOf(run, stated) {
  if (run.plan.calibrated === null) return null;
  const number = run.bins.reduce((sum, [count]) => sum + count, 0n);
  let ece = null;
  if (number >= 100n) {
    const off = run.bins.reduce((sum, [, right, said]) => {
      const by = right * NANO - said;
      return sum + (by < 0n ? -by : by);
    }, 0n);
    // What chance would show is resampled: it is taken as stated.
    const { expected_if_calibrated: mean, upper_95_if_calibrated: upper } = stated.ece;
    expect(0 <= mean && mean <= upper && upper <= 1, "calibration/ece: expected bounds by chance");
    ece = { value: published(ratio(off, number * NANO)), bins: 10, scheme: "equal-width",
      expected_if_calibrated: mean, upper_95_if_calibrated: upper };
  }
  const brier = ratio(run.squares, number * NANO ** 2n);
  let decomposition = null;
  if (brier !== null) {
    const share = ratio(run.bins.reduce((sum, [, right]) => sum + right, 0n), number);
    let [reliability, resolution] = [whole(0), whole(0)];
    for (const [count, right, said] of run.bins.filter(([count]) => count)) {
      const off = minus(ratio(said, NANO), whole(right));
      reliability = plus(reliability, times(times(off, off), ratio(1n, count * number)));
      const by = minus(ratio(right, count), share);
      resolution = plus(resolution, times(times(by, by), ratio(count, number)));
    }
    const uncertainty = times(share, minus(whole(1), share));
    const within = minus(plus(minus(brier, reliability), resolution), uncertainty);
    decomposition = { reliability: published(reliability), resolution: published(resolution),
      uncertainty: published(uncertainty), within_bin: published(within) };
  }
  return {
    criterion: run.plan.calibrated, probabilities: Number(number), without_probability: run.silent,
    without_verdict: run.undecided, brier_score: published(brier), decomposition, ece,
    ece_reason: ece === null ? "fewer-than-100-probabilities" : null,
    bins: run.bins.map(([count, right, said], place) => ({
      low: place / 10, high: (place + 1) / 10, count: Number(count),
      mean_probability: published(ratio(said, count * NANO)),
      share_right: published(ratio(right, count)),
    })),
  };
}

/** What two spellings of one person's name have in common, as near to case folding as we come. */
const identity = (name) => name.trim().toUpperCase().toLowerCase().normalize("NFC");

/** What people gave who scored every item of a rubric step. */
async function ratingOf(evidence, run, entry) {
  const scored = run.lines.filter((line) => line.outcome === "scored");
  const drawn = [];
  for (const line of scored) drawn.push([hex(await evidence.draw("item", line.episode_id)),
    line.episode_id]);
  const items = drawn.sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, entry.items ?? 1)
    .map(([, id]) => id);
  const path = `hitl/${entry.step_id}.jsonl`;
  const isDone = evidence.details("step_completed").some((one) => one.step_id === entry.step_id);
  const [low, high] = [exact(entry.scoring_scale.min), exact(entry.scoring_scale.max)];
  const given = new Map();
  for (const line of isDone && evidence.files.has(path) ? evidence.values(path) : []) {
    const name = identity(line.scorer);
    if (!given.has(name)) given.set(name, new Map());
    const length = minus(high, low);
    given.get(name).set(line.episode_id,
      times(minus(exact(line.score), low), ratio(length.d, length.n)));
  }
  const panel = [...given.values()].filter((scores) =>
    scores.size === items.length && items.every((item) => scores.has(item)));
  const rows = items.map((item) => panel.map((scores) => scores.get(item)));
  const every = rows.flat();
  const mean = every.length ? times(total(every), ratio(1n, BigInt(every.length))) : null;
  const spread = (values) => minus(times(whole(values.length), total(values.map((v) => times(v, v)))),
    times(total(values), total(values)));
  let [alpha, reason] = [null, null];
  if (!panel.length || !items.length) reason = "not-rated";
  else if (panel.length < 2) reason = "fewer-than-2-scorers";
  else if (rows.length < 10) reason = "fewer-than-10-items";
  else if (spread(every).n === 0n) reason = "no-variation";
  else {
    const within = total(rows.map((row) => times(spread(row), ratio(1n, BigInt(panel.length - 1)))));
    const all = spread(every);
    alpha = minus(whole(1), times(times(within, whole(every.length - 1)), ratio(all.d, all.n)));
  }
  return { mean, items, scorers: items.length ? panel.length : 0,
    agreement: { method: "krippendorff-alpha-interval", value: published(alpha), reason } };
}

const runOf = (evidence) => evidence.once("run", () => tallied(evidence));
const recomputed = (evidence) => evidence.once("aggregate", async () => {
  const run = await runOf(evidence);
  const stated = evidence.aggregate;
  const ratings = new Map();
  for (const [step, entry] of evidence.rubrics)
    ratings.set(step, await ratingOf(evidence, run, entry));
  const people = {};
  for (const [step, entry] of evidence.rubrics)
    if ((entry.share ?? null) !== null && (entry.criterion_id ?? null) !== null)
      people[entry.criterion_id] = ratings.get(step).mean;
  const machine = meansOf(run, ["missing"]);
  const scores = withPeople(run, machine, people);
  const every = (values) => Object.fromEntries(run.plan.ids.map((id) => [id, published(values[id])]));
  const all = (words, gap) => withPeople(run, meansOf(run, words, gap), people);
  const gaps = ["missing", "excluded", "declined", "unscored", "not_run"];
  const [low, high] = [all(gaps, 0), all(gaps, 1)];
  const bounds = (a, b) => a === null ? null : { low: published(a), high: published(b) };
  const names = [...run.plan.ids, COMPOSITE];
  const human = {};
  const programme = evidence.template.resolution_programme;
  const until = programme.findIndex((step) => step.type === "aggregation");
  for (const { step_id: step, type } of until < 0 ? programme : programme.slice(0, until)) {
    if (type !== "hitl_rubric") continue;
    const [entry, rating] = [evidence.rubrics.get(step), ratings.get(step)];
    const criterion = entry.criterion_id ?? null;
    human[step] = {
      criterion_id: criterion, share: entry.share ?? null,
      machine: criterion === null ? null : published(machine[criterion]),
      human: published(rating.mean), items: rating.items.length, scorers: rating.scorers,
      agreement: rating.agreement,
    };
  }
  const computed = {};
  const ended = Object.fromEntries(
    evidence.json("resolution.json").steps.map((step) => [step.step_id, step]));
  for (const step of programme)
    if (step.type === "deterministic_computation" && step.input_spec?.in_aggregate === true) {
      const done = ended[step.step_id];
      computed[step.step_id] = done.status === "completed" ? done.result.output : null;
    }
  const { outcomes, statuses, plan } = run;
  const composite = weighted(plan, scores);
  const ran = BigInt(run.number);
  return {
    scores: every(scores), composite_score: published(composite),
    score_counts: criterionCounts(run),
    episode_counts: {
      total: run.lines.length, scored: outcomes.scored, timeout: statuses.timeout,
      error: statuses.error, refused: statuses.refused, unscored: outcomes.unscored,
      not_run: outcomes.not_run,
    },
    coverage: published(ratio(BigInt(outcomes.scored), ran - BigInt(outcomes.excluded))),
    refusal_rate: published(ratio(BigInt(outcomes.excluded), ran)),
    score_intervals: Object.fromEntries(names.map((name) => [name, intervalOf(evidence, run, name,
      name === COMPOSITE ? composite : scores[name], stated.score_intervals)])),
    holdout_scores: plan.split.n ? holdoutOf(run) : null,
    answered_only: every(all([])),
    refusals_as_zero: every(all(["missing", "excluded"])),
    worst_case_bounds: Object.fromEntries(names.map((name) => [name, name === COMPOSITE
      ? bounds(weighted(plan, low), weighted(plan, high)) : bounds(low[name], high[name])])),
    calibration: calibrationOf(run, stated.calibration),
    human_scores: Object.keys(human).length ? human : null,
    ...(Object.keys(computed).length ? { computed } : {}),
    ...(plan.repeats > 1 ? { repeats: repeatsDocument(run, scores, composite) } : {}),
  };
});
function criterionCounts(run) {
  return Object.fromEntries(run.plan.ids.map((id) =>
    [id, Object.fromEntries(WORDS.map((word) => [word, run.verdicts[id][word]]))]));
}

// ---- What a measure is worth (docs/scorers.md, "Qualification") ----

/** The labelled sets on which a measure qualifies, by hash. */
const LABELLED = {
  "9e7d7519776f8f67003dfd8c63c0c9b9c0d282ef57563b70957bd51b25eee569": {
    name: "fixtures/labelled/changes", made_by: "language models of the team, no person",
    agreement: { by: "a second reader, a language model too, who saw no labels", claims: 600,
      raw: 0.998, kappa: 0.998 },
  },
};
const PLACES = ["field", "record", "diff", "expected", "question"];
const FIGURES = ["balanced_accuracy", "sensitivity", "specificity"];
const withEnds = (value, ends, method) => ({ value, method, level: 0.95,
  low: ends && Math.max(0, round6(ends[0])), high: ends && Math.min(1, round6(ends[1])) });
const totalsOf = (side) => Object.values(side).reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
const share = (hits, of) => ratio(BigInt(hits), BigInt(of));

/** Change → [right, claims], of the true claims and of all others. */
function sidesOf({ measure, rows }) {
  const sides = [{}, {}];
  for (const { change_id: change, verdict, score } of rows) {
    const isTrue = verdict === "supported";
    const right = score !== null && !less(exact(score), exact(measure.threshold)) === isTrue;
    const pair = (sides[isTrue ? 0 : 1][change] ??= [0, 0]);
    pair[0] += right ? 1 : 0;
    pair[1] += 1;
  }
  return sides;
}

/** How many independent claims would vary as much as these do between changes. */
function independentClaims(side) {
  const [[hits, of], units] = [totalsOf(side), Object.values(side)];
  const mean = share(hits, of);
  if (hits === 0 || hits === of) return units.length;
  const off = units.map(([right, claims]) => minus(whole(right), times(mean, whole(claims))));
  const spread = total(off.map((one) => times(one, one)));
  if (!spread.n) return of;
  const variance = times(spread, ratio(BigInt(units.length), BigInt((units.length - 1) * of ** 2)));
  return Math.min(toNumber(times(times(mean, minus(whole(1), mean)),
    { n: variance.d, d: variance.n })), of);
}

/** A share with Wilson's interval for as many claims as would vary as much. */
function shareOf(side) {
  const [[hits, of], units] = [totalsOf(side), Object.values(side)];
  const value = of ? published(share(hits, of)) : null;
  if (units.length < 2) return withEnds(value, null, "undefined");
  const isSingle = units.every(([, claims]) => claims === 1);
  const n = isSingle ? of : independentClaims(side);
  const [p, shrink] = [hits / of, 1 + Z * Z / n];
  const centre = (p + Z * Z / (2 * n)) / shrink;
  const half = Z * Math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n)) / shrink;
  return withEnds(value, [centre - half, centre + half], isSingle ? "wilson" : "cluster_wilson");
}

/** The mean of both shares; its interval joins theirs with their correlation (MOVER). */
function meanOfShares(sides, shares) {
  if (shares.some((one) => one.value === null)) return withEnds(null, null, "undefined");
  const [one, other] = sides.map(totalsOf);
  const value = published(times(plus(share(...one), share(...other)), ratio(1n, 2n)));
  if (shares.some((one) => one.low === null)) return withEnds(value, null, "undefined");
  const [first, second] = sides.map((side, at) => Object.fromEntries(Object.entries(side).map(
    ([name, [hits, of]]) => [name, hits * [one, other][at][1] - [one, other][at][0] * of])));
  const [a, b] = [first, second].map((side) =>
    Object.values(side).reduce((sum, each) => sum + each * each, 0));
  const product = Object.entries(first).reduce((sum, [name, each]) =>
    sum + each * (hasOwn(second, name) ? second[name] : 0), 0);
  const together = a && b ? product / Math.sqrt(a * b) : 0;
  const end = (side) => {
    const [c, d] = shares.map((each) => Math.abs(each.value - each[side]));
    return Math.sqrt(Math.max(0, c * c + d * d + 2 * together * c * d)) / 2;
  };
  return withEnds(value, [value - end("low"), value + end("high")],
    shares.every((each) => each.method === "wilson") ? "mover" : "cluster_mover");
}

/** The qualification in a signed file, with the key that is named in it; null for any other. */
async function signedQualification(lines, wanted) {
  try {
    expect(lines.length === 1, "expected one line");
    const envelope = lines[0].dsseEnvelope;
    expect(envelope.signatures.length === 1, "expected one signature");
    const { qualification } = parseJson(unbase64(envelope.payload)).predicate;
    const rows = qualification.rows.toSorted((a, b) => (a.claim_id < b.claim_id ? -1 : 1));
    expect(new Set(rows.map((row) => row.claim_id)).size === rows.length, "a claim twice");
    const labels = rows.map((row) => [row.claim_id, row.change_id, row.verdict, row.kind]);
    const set = await sha256(bytesOf(canonical({
      labels_sha256: await sha256(bytesOf(canonical(labels))),
      texts_sha256: qualification.labelled_set.texts_sha256,
    })));
    same("the labelled set", set, qualification.labelled_set.sha256);
    same("the hash", await sha256(bytesOf(canonical(qualification))), wanted);
    const sides = sidesOf(qualification);
    const [sensitivity, specificity] = sides.map(shareOf);
    const balanced = meanOfShares(sides, [sensitivity, specificity]);
    for (const [at, found] of [balanced, sensitivity, specificity].entries()) {
      const stated = qualification[FIGURES[at]];
      for (const side of ["low", "high"])
        expect(found[side] === stated[side]
          || Math.abs(found[side] - stated[side]) <= 2.000001e-6, "figures of other rows");
      same(FIGURES[at], { ...found, low: 0, high: 0 }, { ...stated, low: 0, high: 0 });
    }
    return { ...qualification, signed_by: String(envelope.signatures[0].keyid) };
  } catch (error) {
    if (error instanceof Defect || error instanceof TypeError) return null;
    throw error;
  }
}

/** Criterion → the qualification that the template relies on; null for one that is none. */
async function qualificationsOf(evidence) {
  const { template } = evidence;
  const found = {};
  if (template.schema_version !== "2.2.0") return found;
  for (const [id, named] of Object.entries(template.scoring?.qualifications ?? {}))
    found[id] = await signedQualification(
      evidence.values(`ground_truth/${named.dataset}.jsonl`), named.sha256);
  return found;
}

/** Criterion → why a measure that decides a weight carries no tier. */
function unqualified(evidence, plan, qualifications) {
  const { scorer_kinds: kinds, scorer_pins: pins } = evidence.receipt;
  const found = {};
  for (const [at, id] of plan.ids.entries()) {
    const [scorer, params] = plan.scorer(id);
    const kind = kindOf(scorer, kinds);
    if (!plan.shares[at] || kind === "exact"
      || canonical(published(plan.people.get(id) ?? null)) === "1") continue;
    const reason = hasOwn(qualifications, id)
      ? whyNot(qualifications[id], scorer, pins[scorer] ?? null, params) : "";
    if (reason !== null) found[id] = reason ? `${scorer}: ${reason}` : `${scorer} is ${kind}`;
  }
  return found;
}

function whyNot(qualification, scorer, version, params) {
  if (qualification === null) return "its qualification cannot be read";
  const { measure } = qualification;
  const pairs = [["scorer", scorer, measure.scorer], ["version", version, measure.version]];
  for (const name of sorted(new Set([...Object.keys(params), ...Object.keys(measure.params)])))
    pairs.push(PLACES.includes(name) ? [name, hasOwn(params, name), hasOwn(measure.params, name)]
      : [name, params[name] ?? null, measure.params[name] ?? null]);
  for (const [what, mine, theirs] of pairs)
    if (canonical(mine) !== canonical(theirs)) return `its qualification is of another ${what}`;
  if (!hasOwn(LABELLED, qualification.labelled_set.sha256))
    return "qualified on a labelled set that policy does not know";
  if (measure.threshold !== 0.5) return "qualified with another threshold than 0.5";
  const { low } = qualification.balanced_accuracy;
  return low === null || low < 0.75 ? "its balanced accuracy may be below 0.75" : null;
}

const isByPolicy = ({ labelled_set: set, measure }) =>
  hasOwn(LABELLED, set.sha256) && measure.threshold === 0.5;

/** The certificate's members on what the measures are worth. */
async function measuresOf(evidence) {
  const { aggregate, certificate } = evidence;
  const found = await qualificationsOf(evidence);
  const plan = planOf(evidence.template);
  const [shown, corrected] = [{}, {}];
  for (const [id, one] of Object.entries(found)) {
    const [scorer, params] = plan.scorer(id);
    shown[id] = one && await shownOf(one);
    const reason = one && whyNot(one, scorer, evidence.receipt.scorer_pins[scorer] ?? null, params);
    const counts = one && isByPolicy(one) && !reason?.includes("is of another");
    corrected[id] = correctedOf(aggregate, id, counts ? sidesOf(one).map(scaledHits) : null);
    const stated = certificate.corrected_scores?.[id] ?? {};
    for (const name of ["value", "low", "high"])
      if (Math.abs(corrected[id][name] - stated[name]) <= 2.000001e-6)
        corrected[id][name] = stated[name];
  }
  const isNone = !Object.keys(found).length;
  return { qualification: isNone ? null : shown, corrected_scores: isNone ? null : corrected };
}

async function shownOf(qualification) {
  const { signed_by: kid, ...content } = qualification;
  const { labelled_set: set, measure, balanced_accuracy: { low } } = content;
  const known = LABELLED[set.sha256] ?? { name: null, made_by: null, agreement: null };
  return {
    sha256: await sha256(bytesOf(canonical(content))), signed_by: kid, issuer: content.issuer,
    measure: `${measure.scorer}@${measure.version}`,
    labelled_set: { sha256: set.sha256, claims: set.claims, changes: set.changes, ...known },
    ...Object.fromEntries(FIGURES.map((name) => [name, content[name]])),
    qualified: isByPolicy(qualification) && low !== null && low >= 0.75,
  };
}

/** [right, of] as of so many independent claims, in whole numbers. */
function scaledHits(side) {
  if (Object.keys(side).length < 2) return [0, 0];
  const [[hits, of], trials] = [totalsOf(side), Math.floor(independentClaims(side))];
  return [Number(divided(BigInt(trials * hits), BigInt(of))), trials];
}

/** A score corrected for its measure's errors (docs/statistics.md), or why it is not. */
function correctedOf(aggregate, id, errors) {
  const [counts, ends] = [aggregate.score_counts[id], aggregate.score_intervals[id]];
  const n = counts.scored;
  const people = Object.values(aggregate.human_scores ?? {})
    .some((one) => one.criterion_id === id && one.share !== null);
  const part = n / (n + counts.missing);
  const found = !errors ? "no known errors of the measure"
    : people ? "people have a share in the score"
      : ends.low === null || !n ? "the score has no interval"
        : roganGladen(aggregate.answered_only[id], n, (ends.high - ends.low) / 2 / part, errors);
  const isNull = typeof found === "string";
  const [value, low, high] = isNull ? [null, null, null] : found.map((one) => one * part);
  return { raw: aggregate.scores[id], n, errors_from: "qualification",
    value: isNull ? null : Number(value.toFixed(9)), low: isNull ? null : round6(low),
    high: isNull ? null : round6(high), method: isNull ? "undefined" : "lang_reiczigel",
    level: 0.95, reason: isNull ? found : null };
}

/** A rate without a judge's errors, and its bounds by Lang and Reiczigel; or why not. */
function roganGladen(rate, n, half, [[seen, ofTrue], [spared, ofFalse]]) {
  for (const [number, what] of [[n, "items"], [ofTrue, "true controls"],
    [ofFalse, "false controls"]])
    if (number < 100) return `fewer than 100 ${what}`;
  if (less(plus(share(seen, ofTrue), share(spared, ofFalse)), ratio(13n, 10n)))
    return "sensitivity + specificity below 1.3";
  const trials = rate === 0 || rate === 1 || !half ? n
    : Math.min(rate * (1 - rate) * Z * Z / half ** 2, n);
  const all = trials + Z * Z;
  const p = (rate * trials + Z * Z / 2) / all;
  const [se, sp] = [(seen + 1) / (ofTrue + 2), (spared + 1) / (ofFalse + 2)];
  const middle = (p + sp - 1) / (se + sp - 1);
  const [ofSe, ofSp] = [se * (1 - se) / (ofTrue + 2), sp * (1 - sp) / (ofFalse + 2)];
  const moved = middle + 2 * Z * Z * (middle * ofSe - (1 - middle) * ofSp);
  const spread = p * (1 - p) / all + middle ** 2 * ofSe + (1 - middle) ** 2 * ofSp;
  const reach = Z * Math.sqrt(spread) / (se + sp - 1);
  if (moved + reach < 0 || moved - reach > 1)
    return "the judged rate is one that the judge's known errors cannot give";
  const [a, b] = [seen / ofTrue, spared / ofFalse];
  const clip = (one) => Math.min(1, Math.max(0, one));
  return [clip((rate + b - 1) / (a + b - 1)), clip(moved - reach), clip(moved + reach)];
}

// ---- Tier (docs/contract/evidence.md §10) ----

/** Code and what was seen of each requirement of BACKTESTED that is not met, in order. */
function* unmetForBacktested(facts, history) {
  const { replay_count: scored, run } = facts;
  const [n, d] = facts.max_refusal_rate.split("/").map(BigInt);
  const most = ratio(n, d ?? 1n);
  const isAbove = (count, of) => less(times(most, whole(of)), whole(count));
  if (scored === 0) yield ["nothing-scored", "0"];
  if (scored < 50) yield ["replays-below-50", `${scored}`];
  if (facts.distinct_inputs < Math.min(50, scored))
    yield ["distinct-inputs-below-50", `${facts.distinct_inputs}`];
  // Where episodes are asked more than once, of answers: one success would hide many failures.
  const { asked: of, failed, refused } = facts.answers
    ?? { asked: run, failed: facts.failures, refused: facts.refusals };
  if (5 * failed > of) yield ["failure-rate-above-20", `${failed}/${of}`];
  const allowed = `allowed ${facts.max_refusal_rate}`;
  if (isAbove(refused, of)) yield ["refusal-rate-above-max", `${refused}/${of}, ${allowed}`];
  for (const id of sorted(Object.keys(facts.criterion_counts))) {
    const counts = facts.criterion_counts[id];
    const number = counts.scored + counts.missing;
    const applicable = number + counts.declined + counts.unscored;
    const distinct = facts.criterion_distinct_inputs[id];
    if (number === 0) yield [`criterion-unscored:${id}`, "0"];
    if (number < 30) yield [`criterion-n-below-30:${id}`, `${number}`];
    if (distinct < Math.min(30, number))
      yield [`distinct-per-criterion-below-30:${id}`, `${distinct}`];
    if (counts.unscored) yield [`unscored-answers:${id}`, `${counts.unscored}`];
    if (isAbove(counts.declined, applicable))
      yield [`declined-above-max:${id}`, `${counts.declined}/${applicable}, ${allowed}`];
  }
  for (const id of sorted(Object.keys(facts.unqualified_measures)))
    yield [`measure-unqualified:${id}`, facts.unqualified_measures[id]];
  const unpinned = facts.construct_version === null ? ["construct_version"] : [];
  for (const name of sorted(new Set([...unpinned, ...facts.missing_pins])))
    yield [`pin-missing:${name}`, "absent"];
  if (facts.version_mismatches) yield ["version-mismatch", `${facts.version_mismatches}`];
  if (facts.determinism_differences)
    yield ["answers-not-deterministic", `${facts.determinism_differences}`];
  if (facts.rehearsal || facts.adapter_pin.split("@")[0] === "mock")
    yield ["mock-adapter", facts.adapter_pin];
  if (!facts.scorers_committed) yield ["scorers-not-committed", "no"];
  if (!facts.bundle_complete) yield ["bundle-incomplete", "no"];
  if (!facts.commitment_verifiable) yield ["commitment-not-verifiable", "no"];
  const open = history.disputes.filter((one) => one.status === "admitted");
  if (open.length) yield ["dispute-open", sorted(open.map((one) => one.dispute_id)).join(", ")];
}

function* unmetForProven(facts, history, now, isBacktested) {
  const own = (kind) => history[kind].filter((one) => one.construct_id === facts.construct_id
    && one.construct_version === facts.construct_version);
  const runs = own("runs");
  const worse = runs.filter((one) => one.tier === "UNVERIFIED").map((one) => moment(one.resolved_at));
  const since = worse.reduce((a, b) => (a > b ? a : b), -1n);
  const good = runs.filter((one) => one.tier !== "UNVERIFIED").map((one) => moment(one.resolved_at));
  const order = (a, b) => (a < b ? -1 : 1);
  const row = !isBacktested ? []
    : [...new Set([now, ...good.filter((at) => at > since)])].sort(order);
  if (!row.some((_, first) => ![...missingIn(row.slice(first))].length)) yield* missingIn(row);
  const ends = own("telemetry").map((one) => moment(one.end)).sort(order);
  if (!ends.length) yield ["telemetry-missing", "0"];
  else if (now - ends.at(-1) >= 180n * DAY)
    yield ["telemetry-older-than-180-days", writtenSpan(now - ends.at(-1))];
  const hashes = runs.map((one) => one.results_hash);
  if (!history.attestations.some((one) => one.independent && hashes.includes(one.results_hash)))
    yield ["attestation-missing", "0"];
  const signals = own("signals");
  const newest = (one) => !signals.some((two) => two.source === one.source && two.at > one.at);
  const adverse = signals.filter((one) => newest(one) && !one.consistent).map((one) => one.source);
  if (!signals.length) yield ["behavioural-signal-missing", "0"];
  else if (adverse.length)
    yield ["behavioural-signal-adverse", sorted(new Set(adverse)).join(", ")];
}

function* missingIn(row) {
  const span = row.length ? row.at(-1) - row[0] : 0n;
  const gap = row.slice(1).map((at, n) => at - row[n]).reduce((a, b) => (a > b ? a : b), 0n);
  if (row.length < 3) yield ["runs-below-3", `${row.length}`];
  if (span < 90n * DAY) yield ["runs-span-below-90-days", writtenSpan(span)];
  if (gap > 45n * DAY) yield ["run-gap-above-45-days", writtenSpan(gap)];
}

/** The `assessment` of tier.json, from facts that were counted here. */
function assess(facts, history, resolvedAt) {
  const now = moment(resolvedAt);
  const unmet = [...unmetForBacktested(facts, history)];
  const found = unmet.map(([code]) => code);
  for (const code of sorted(new Set(facts.extra_caps)))
    if (!found.includes(code)) unmet.push([code, "found with the evidence"]);
  const above = [...unmetForProven(facts, history, now, !unmet.length)];
  const tier = unmet.length ? "UNVERIFIED" : above.length ? "BACKTESTED" : "PROVEN";
  const days = { UNVERIFIED: null, BACKTESTED: 90n, PROVEN: 180n }[tier];
  const listed = (of, list) => list.map(([code, seen]) => ({ code, seen, tier: of }));
  return {
    tier, unmet: [...listed("BACKTESTED", unmet), ...listed("PROVEN", above)],
    caps: (unmet.length ? unmet : above).map(([code]) => code),
    expires_at: days === null ? null : writtenTime(now + days * DAY),
  };
}

const ABOUT = { construct_id: "string", construct_version: "string" };
const HISTORY = {
  runs: { ...ABOUT, theatre_id: "string", tier: "string", resolved_at: "string",
    results_hash: "string" },
  telemetry: { ...ABOUT, start: "string", end: "string", confirmed_at: "string" },
  attestations: { attester: "string", independent: "boolean", results_hash: "string", at: "string" },
  disputes: { dispute_id: "string", status: "string", at: "string" },
  signals: { ...ABOUT, source: "string", consistent: "boolean", at: "string" },
};
const MOMENTS = ["at", "start", "end", "confirmed_at", "resolved_at"];
const VALUES = {
  tier: /^(UNVERIFIED|BACKTESTED|PROVEN)$/, status: /^(filed|admitted|resolved)$/,
  results_hash: /^[0-9a-f]{64}$/, theatre_id: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
};

/** Each fact once, of another run, known when this one resolved: one run could count three times. */
function requireHistory(history, theatreId, resolvedAt) {
  same("tier.json/history", Object.keys(HISTORY).sort(), Object.keys(history).sort());
  for (const [sort, form] of Object.entries(HISTORY)) {
    const seen = new Set();
    for (const one of history[sort]) {
      const types = Object.fromEntries(Object.entries(one).map(([k, v]) => [k, typeof v]));
      same(`tier.json/history/${sort}`, form, types);
      for (const [name, value] of Object.entries(one)) {
        expect((VALUES[name] ?? /^[^]+$/).test(value), `tier.json/history/${sort}/${name}: ${value}`);
        if (MOMENTS.includes(name))
          expect(moment(value) >= 0n && value <= resolvedAt, `${sort}: later than ${resolvedAt}`);
      }
      const key = canonical({ runs: one.theatre_id, disputes: one.dispute_id }[sort] ?? one);
      expect(!seen.has(key), `tier.json/history: expected each of the ${sort} once`);
      seen.add(key);
      expect(one.theatre_id !== theatreId, "tier.json/history: expected other runs, got this one");
      if (sort === "telemetry")
        expect(one.start < one.end && one.end <= one.confirmed_at, "telemetry: start, end, order");
    }
  }
}

const CLOSED = ["files", "processes", "network"];
const WEAKEST_FIRST = ["none", "other-user", "landlock", "namespaces", "remote"];
function requireIsolation(value, where) {
  expect(isObject(value) && canonical(Object.keys(value).sort())
    === canonical([...CLOSED, "by"].sort()) && CLOSED.every((name) => typeof value[name] === "boolean")
    && WEAKEST_FIRST.includes(value.by), `${where}: expected what was closed, got another form`);
}
function adapterTypes(template) {
  const config = template.product_theatre_config;
  return [config, ...Object.values(config.construct_endpoints ?? {})].map((one) => one.adapter_type);
}
/** What was closed to every construct of an episode at the start of the run. */
function isolationOf(evidence) {
  const types = adapterTypes(evidence.template);
  // The program that asked had the answers.
  if (types.includes("imported") || types.includes("harness"))
    return { files: false, processes: false, network: false, by: "none" };
  const found = evidence.chain.map((name) => evidence.activated.isolation[name]);
  found.forEach((one) => requireIsolation(one, "activated/isolation"));
  const weakest = Math.min(...found.map((one) => WEAKEST_FIRST.indexOf(one.by)));
  const closed = CLOSED.map((name) => [name, found.every((one) => one[name])]);
  return { ...Object.fromEntries(closed), by: WEAKEST_FIRST[weakest] };
}

/** [step, how it ended, does it guard the evidence] of each step that failed or was skipped. */
function missed(evidence) {
  const { steps } = evidence.json("resolution.json");
  return evidence.template.resolution_programme.map((step, at) => {
    const computes = step.type === "deterministic_computation";
    const walks = (step.input_spec ?? {}).computation === "provenance_chain";
    let ended = steps[at].status;
    // A provenance chain that found its log not intact counts as failed.
    if (computes && walks && ended === "completed" && steps[at].result.output.intact !== true)
      ended = "failed";
    return [step.step_id, ended, computes && Boolean(walks
      || Object.keys(step.output_spec ?? {}).length)];
  }).filter(([, ended]) => ended !== "completed");
}

const counted = (evidence, run) => run.lines.filter((line) => line.outcome !== "not_run")
  .map((line) => evidence.records.get(line.seq));

async function factsOf(evidence) {
  const run = await runOf(evidence);
  const { plan, outcomes } = run;
  const { template, config } = evidence;
  const pins = template.version_pins;
  const underTest = config.construct_under_test;
  const records = counted(evidence, run);
  const calls = records.flatMap((record) => record.calls);
  const adapter = calls.findLast((call) => call.construct_id === underTest)?.adapter ?? "";
  const version = pins.constructs[underTest] ?? null;
  const named = {
    construct_version: version, scorer_version: pins.scorer_version,
    dataset_hash: template.dataset_hashes[config.replay_dataset_id],
  };
  const inputs = [];
  for (const line of run.lines) {
    const sent = evidence.playsTurns ? evidence.dataset[line.seq - 1].input_data
      : evidence.records.get(line.seq)?.sent;
    if (line.outcome !== "not_run") inputs.push([canonical(sent), line]);
  }
  const distinct = (holds) => new Set(inputs.filter(([, line]) => holds(line)).map(([one]) => one)).size;
  const closed = isolationOf(evidence);
  const human = (await recomputed(evidence)).human_scores ?? {};
  const byHarness = plan.ids.filter((id, n) => plan.shares[n]
    && plan.scorer(id)[0] === "harness_score" && published(plan.people.get(id) ?? null) !== 1);
  const caps = [
    ["episodes-not-run", outcomes.not_run > 0], ["gold-unpinned", evidence.goldIsUnpinned],
    ["episodes-withheld", hasOwn(config, "withheld")],
    ["version-unreported", adapter.startsWith("plain_")],
    ["reproduction", evidence.isReproduction],
    ["construct-not-isolated", !(closed.files && closed.processes)],
    ["evidence:imported", adapterTypes(template).includes("imported")],
  ].filter(([, holds]) => holds).map(([code]) => code);
  caps.push(...sorted(byHarness.map((id) => `scores-by-harness:${id}`)));
  caps.push(...sorted(new Set(Object.values(human)
    .filter((one) => one.share !== null && one.human === null)
    .map((one) => `human-part-missing:${one.criterion_id}`))));
  caps.push(...sorted(missed(evidence).filter(([, , guards]) => guards)
    .map(([name, end]) => `step-${end}:${name}`)));
  const most = plan.most;
  return {
    replay_count: outcomes.scored, failures: outcomes.missing, refusals: outcomes.excluded,
    run: run.number, total: run.lines.length,
    max_refusal_rate: most.d === 1n ? `${most.n}` : `${most.n}/${most.d}`,
    criterion_counts: criterionCounts(run), construct_id: underTest, construct_version: version,
    adapter_pin: adapter, rehearsal: calls.some((call) => call.adapter.startsWith("mock@")),
    distinct_inputs: distinct((line) => line.outcome === "scored"),
    criterion_distinct_inputs: Object.fromEntries(plan.ids.map((id) =>
      [id, distinct((line) => line.scores[id] !== null)])),
    unqualified_measures: unqualified(evidence, plan, await qualificationsOf(evidence)),
    missing_pins: Object.keys(named).filter((name) => !named[name]).sort(byPin),
    version_mismatches: records.reduce((sum, record) => sum + record.mismatches, 0),
    determinism_differences: records.filter((record) => record.differs).length,
    scorers_committed: Object.keys(template.scoring?.criteria_scorers ?? {}).length > 0,
    bundle_complete: required(evidence).every((path) => evidence.files.has(path)),
    commitment_verifiable: evidence.receipt.commitment_hash === await evidence.commitmentHash,
    extra_caps: caps,
    ...(plan.repeats === 1 ? {} : { answers: {
      asked: STATUSES.reduce((sum, word) => sum + run.answers[word], 0),
      failed: run.answers.timeout + run.answers.error, refused: run.answers.refused,
    } }),
  };
}
const PINS = ["construct_version", "dataset_hash", "scorer_version"];
const byPin = (a, b) => PINS.indexOf(a) - PINS.indexOf(b);
const required = (evidence) =>
  [...REQUIRED, evidence.isReproduction ? "reproduction.json" : "certificate.json"];

// ---- The certificate ----

/** What a reader must know and no tier rule looks at. */
async function findingsOf(evidence) {
  const run = await runOf(evidence);
  const { activated, aggregate, config, policy } = evidence;
  const audit = evidence.json("scores/data_audit.json");
  const source = versionSource(evidence, run);
  const before = activated.previous_environment;
  const began = canonical(activated.environment);
  const found = [
    [source !== "computed", `version-${source}`], [config.harness, `harness:${config.harness}`],
    [!isolationOf(evidence).network, "network-open"],
    [began !== canonical(evidence.receipt.environment)
      || (before !== null && canonical(before) !== began), "environment-changed"],
    ...Object.entries(await qualificationsOf(evidence)).map(([id, one]) =>
      [one && isByPolicy(one), `labels-by-models:${id}`]),
    [evidence.repeats === 1 && (!policy.deterministic_sample
      || counted(evidence, run).some((record) => record.differs)), "within-item-variance-unknown"],
    [audit.answers_in_inputs, "answers-in-inputs"], [audit.near_duplicates, "near-duplicates"],
  ].filter(([holds]) => holds).map(([, code]) => code);
  for (const [name, ended, guards] of missed(evidence))
    if (ended === "failed" && !guards) found.push(`step-failed:${name}`);
  for (const step of evidence.json("resolution.json").steps) {
    const codes = (step.result.output ?? {}).findings;
    if (step.type === "deterministic_computation" && Array.isArray(codes))
      found.push(...codes.filter((code) => typeof code === "string" && code.startsWith("controls-")));
  }
  for (const [id, one] of Object.entries(audit.criteria))
    if (one.expectations === 1) found.push(`one-expectation:${id}`);
  for (const [id, one] of Object.entries(evidence.json("scores/baselines.json").criteria)) {
    const limit = aggregate.score_intervals[id].low ?? aggregate.scores[id];
    const trivial = ["empty", "copied", "most_frequent", "other_episode"].map((name) => one[name]);
    if (limit !== null && trivial.some((part) => part !== null && part.score >= limit))
      found.push(`baseline-meets-interval:${id}`);
  }
  return sorted(found);
}

function versionSource(evidence, run) {
  const found = counted(evidence, run).flatMap((one) => one.calls.map((call) => call.version_source));
  return ["claimed", "declared"].find((one) => found.includes(one)) ?? "computed";
}

/** What the calls took; null where no construct is asked in its own form. */
function usageOf(evidence, run) {
  const { template, config } = evidence;
  const prices = new Map([[config.construct_under_test, config.adapter_settings?.prices],
    ...Object.entries(config.construct_endpoints ?? {})
      .map(([name, own]) => [name, own.adapter_settings?.prices])]);
  expect(template.version_pins, "template.json: expected version_pins");
  const [latencies, tokens] = [[], [0, 0]];
  let [asked, cost, isPriced] = [0, whole(0), true];
  for (const call of counted(evidence, run).flatMap((record) => record.calls)) {
    if (!["openai", "anthropic", "mcp", "command", "container"].includes(call.adapter.split("@")[0]))
      continue;
    for (const { response, usage } of call.attempts) {
      latencies.push(response.latency_ms);
      if (usage === undefined) continue;
      asked++;
      const price = prices.get(call.construct_id);
      isPriced &&= price !== undefined;
      [["input_tokens", "input"], ["output_tokens", "output"]].forEach(([name, of], at) => {
        tokens[at] += usage[name];
        if (price) cost = plus(cost, times(exact(price[of]), ratio(BigInt(usage[name]), 1000000n)));
      });
    }
  }
  if (!latencies.length) return null;
  latencies.sort((a, b) => a - b);
  const rank = (share) => latencies[Math.ceil((latencies.length * share) / 100) - 1];
  return {
    calls: latencies.length, calls_counted: asked, input_tokens: tokens[0],
    output_tokens: tokens[1], cost_usd: asked && isPriced ? published(cost) : null,
    latency_ms: { p50: rank(50), p95: rank(95), p99: rank(99) },
  };
}

/** The root over the salted lines of all episodes (docs/contract/evidence.md §4). */
async function episodeRoot(evidence) {
  const questions = evidence.lines("ground_truth/dataset.jsonl");
  const results = evidence.lines("scores/per_episode.jsonl");
  const leaves = [];
  for (const [at, [question, episode]] of questions.entries()) {
    const id = episode.episode_id;
    const record = evidence.records.get(at + 1);
    const line = joined(
      bytesOf(`{"dataset_line":${canonical(textOf(question))},"label":`
        + `${canonical(evidence.gold.get(id) ?? null)},"record":`),
      record ? record.raw.subarray(0, -1) : bytesOf("null"),
      bytesOf(',"result":'), results[at][0], bytesOf("}"));
    leaves.push(await digest(joined([0], await evidence.draw("salt", id), line)));
  }
  return merkleRoot(leaves);
}

async function checkCertificateFields(evidence) {
  const { template, aggregate, receipt, config, trail } = evidence;
  const pins = template.version_pins;
  const sealed = evidence.only("sealed");
  if (evidence.isReproduction)
    return same("reproduction.json", {
      reproduces: receipt.reproduces, coin_sha256: await sha256(evidence.coin),
      results_hash: aggregate.results_hash,
      environment_hash: (receipt.environment ?? {}).environment_hash ?? null,
    }, evidence.json("reproduction.json"));
  const run = await runOf(evidence);
  const { assessment } = evidence.json("tier.json");
  const take = (names, from) => Object.fromEntries(names.map((name) => [name, from(name)]));
  const underTest = config.construct_under_test;
  const constructs = (names) => take(names, (name) => pins.constructs[name]);
  // Every member, and none more: what is not computed again must not be on a certificate.
  same("certificate.json", {
    schema_version: "1.2.0", certificate_id: sealed.certificate_id, theatre_id: receipt.theatre_id,
    template_id: template.theatre_id, construct_id: underTest,
    execution_path: template.execution_path, ground_truth_source: config.ground_truth_source,
    issuer: sealed.issuer, criteria: { criteria_human: "", weights: {}, ...template.criteria },
    ...take(["scores", "composite_score", "score_intervals", "score_counts", "holdout_scores",
      "episode_counts", "coverage", "refusal_rate", "results_hash"], (name) => aggregate[name]),
    ...take(["precision", "recall", "reply_accuracy"], (name) => aggregate.scores[name] ?? null),
    brier_score: aggregate.calibration?.brier_score ?? null,
    ece: aggregate.calibration?.ece?.value ?? null,
    replay_count: aggregate.episode_counts.scored,
    commitment_hash: await evidence.commitmentHash, coin_sha256: await sha256(evidence.coin),
    episode_root: await episodeRoot(evidence),
    evidence_bundle_hash: await sha256(evidence.raw("SHA256SUMS")),
    audit_head: trail.at(-1).entry_hash,
    dataset_hash: template.dataset_hashes[config.replay_dataset_id] ?? null,
    ground_truth_hash: await sha256(bytesOf(canonical(template.dataset_hashes))),
    construct_version: pins.constructs[underTest], version_source: versionSource(evidence, run),
    construct_chain_versions: config.construct_chain?.length
      ? constructs(config.construct_chain) : null,
    environment: receipt.environment, isolation: isolationOf(evidence),
    scorer_version: pins.scorer_version, methodology_version: pins.methodology_version ?? "1.0.0",
    verification_tier: assessment.tier, caps: assessment.caps, findings: await findingsOf(evidence),
    data_audit: evidence.json("scores/data_audit.json"),
    baselines: evidence.json("scores/baselines.json"), expires_at: assessment.expires_at,
    issued_at: trail.at(-1).at, theatre_committed_at: receipt.committed_at,
    theatre_resolved_at: trail.at(-1).at, usage: usageOf(evidence, run),
    ...await measuresOf(evidence), repeats: bothEstimands(aggregate), owner: null,
  }, evidence.certificate);
}

// ---- The checks: each raises what is wrong, or returns a note ----

async function checkInventory(evidence) {
  const manifest = evidence.json("manifest.json");
  const found = [];
  for (const path of evidence.paths)
    if (path !== "manifest.json") {
      const raw = evidence.raw(path);
      found.push({ path, size_bytes: raw.length, sha256: await sha256(raw) });
    }
  const listed = new Map(manifest.file_inventory.map((one) => [one.path, one]));
  for (const one of found) same(`manifest.json: ${one.path}`, one, listed.get(one.path) ?? null);
  same("manifest.json/file_inventory", found, manifest.file_inventory);
  const total = evidence.dataset.length;
  const called = evidence.dataset.map((_, at) => placeOf(at + 1, total)[0]);
  const wanted = new Set([...required(evidence),
    ...Object.keys(evidence.groundTruth).map((name) => `ground_truth/${name}`),
    ...evidence.details("hitl_opened").map((one) => `hitl/${one.step_id}.jsonl`),
    ...called.filter((path) => evidence.files.has(path))]);
  for (const path of evidence.paths) expect(wanted.has(path), `${path}: one file too many`);
  for (const path of wanted) expect(evidence.files.has(path), `${path}: missing`);
}

async function checkSums(evidence) {
  // Line by line, so that the file is named that has another digest.
  const stated = textOf(evidence.raw("SHA256SUMS"));
  const listed = new Map(stated.split("\n").map((line) => [line.slice(66), line.slice(0, 64)]));
  let expected = "";
  for (const path of evidence.paths.filter((one) => !UNSUMMED.includes(one))) {
    const sum = await sha256(evidence.raw(path));
    same(`SHA256SUMS: ${path}`, sum, listed.get(path) ?? null);
    expected += `${sum}  ${path}\n`;
  }
  expect(expected === stated, "SHA256SUMS: another order, or paths that are not there");
}

function checkCanonicalForm(evidence) {
  for (const path of evidence.paths) {
    if (path.startsWith("ground_truth/")) continue;
    if (path.endsWith(".json"))
      expect(sameBytes(evidence.raw(path), bytesOf(`${canonical(evidence.json(path))}\n`)),
        `${path}: expected RFC 8785 bytes and a line feed`);
    else if (path.endsWith(".jsonl"))
      evidence.lines(path).forEach(([raw, value], at) => expect(
        sameBytes(raw, bytesOf(canonical(value))), `${path}, line ${at + 1}: not canonical`));
  }
}

async function checkBundleHash(evidence) {
  const hash = await sha256(evidence.raw("SHA256SUMS"));
  same("manifest.json/bundle_hash", hash, evidence.json("manifest.json").bundle_hash);
  if (!evidence.isReproduction)
    same("certificate.json/evidence_bundle_hash", hash, evidence.certificate.evidence_bundle_hash);
}

async function checkManifest(evidence) {
  const manifest = evidence.json("manifest.json");
  const pins = evidence.template.version_pins;
  const bundleHash = await sha256(evidence.raw("SHA256SUMS"));
  const { theatre_id: theatreId } = evidence.receipt;
  same("manifest.json", {
    bundle_id: await uuid5(theatreId, bundleHash), theatre_id: theatreId,
    commitment_hash: await evidence.commitmentHash, bundle_hash: bundleHash,
    file_inventory: manifest.file_inventory, created_at: evidence.trail.at(-1).at,
    methodology_version: pins.methodology_version ?? "1.0.0",
    construct_version: pins.constructs[evidence.config.construct_under_test],
    scorer_version: pins.scorer_version,
  }, manifest);
}

function checkCertificateCopy(evidence) {
  if (!evidence.kept) throw new Unsettled("no certificate was given to compare it with");
  same("certificate.json", parseJson(evidence.kept, "your certificate"), evidence.certificate);
}

function requireEnvironment(value, where) {
  if (value === null) return;
  same(where, ["environment_hash", "interpreter", "platform"], Object.keys(value).sort());
  expect(Object.values(value).every((text) => typeof text === "string" && text)
    && isSha256(value.environment_hash), `${where}: another form`);
}

async function checkCommitment(evidence) {
  const { template, receipt, activated, trail } = evidence;
  const hash = await evidence.commitmentHash;
  const stated = isObject(receipt.scorer_kinds) ? receipt.scorer_kinds : {};
  const kinds = Object.keys(activated.scorers).map((name) => [name, kindOf(name, stated)]);
  requireEnvironment(receipt.environment, "commitment_receipt.json/environment");
  if (receipt.isolation !== null) requireIsolation(receipt.isolation, "commitment_receipt.json");
  const { reproduces } = evidence.isReproduction ? evidence.json("reproduction.json")
    : { reproduces: null };
  expect(reproduces === null ? !evidence.isReproduction : isSha256(reproduces),
    "reproduction.json: expected the bundle hash that it reproduces");
  same("commitment_receipt.json", {
    theatre_id: trail[0].theatre_id, commitment_hash: hash, coin_sha256: receipt.coin_sha256,
    reproduces, template_snapshot: template, version_pins: template.version_pins,
    dataset_hashes: template.dataset_hashes, scorer_pins: activated.scorers,
    scorer_kinds: Object.fromEntries(kinds), escrowed_capital: null, canonicalisation: "RFC8785",
    committed_at: trail.find((one) => one.event_type === "committed").at,
    environment: receipt.environment, isolation: receipt.isolation,
  }, receipt);
  same("committed", { commitment_hash: hash }, evidence.only("committed"));
  await requireDeclared(template);
  // A kinder version of a scorer than the committed one would score the same answers higher.
  if (template.scorer_pins)
    for (const [name, pin] of Object.entries(activated.scorers))
      same(`scorer_pins/${name}`, template.scorer_pins[name] ?? null, pin);
}

/** The version of a model is the hash of what the template asks of it. */
async function requireDeclared(template) {
  const config = template.product_theatre_config;
  const underTest = config.construct_under_test;
  const endpoints = [[underTest, { ...config,
    endpoint: config.adapter_endpoint || `construct:${underTest}` }],
  ...Object.entries(config.construct_endpoints ?? {})];
  for (const [name, { adapter_type: adapter, endpoint, adapter_settings: own }] of endpoints) {
    if (!["openai", "anthropic", "mcp", "container"].includes(adapter)) continue;
    if (adapter === "mcp" && !/^https?:\/\//.test(endpoint)) continue;
    const { key_env: _, prices: __, ...settings } = own ?? {};
    const asked = canonical({ adapter_type: adapter, endpoint, settings });
    same(`version_pins/${name}`, await sha256(bytesOf(asked)),
      template.version_pins.constructs[name]);
  }
}

async function checkCoin(evidence) {
  const hash = await sha256(evidence.coin);
  same("commitment_receipt.json/coin_sha256", hash, evidence.receipt.coin_sha256);
  const concluded = evidence.isReproduction ? evidence.json("reproduction.json")
    : evidence.certificate;
  same("certificate.json/coin_sha256", hash, concluded.coin_sha256);
}

async function checkDatasets(evidence) {
  const { dataset_hashes: hashes } = evidence.template;
  same("dataset_hashes", Object.keys(hashes).sort(), Object.values(evidence.groundTruth).sort());
  for (const [name, dataset] of Object.entries(evidence.groundTruth))
    same(`ground_truth/${name}`, hashes[dataset], await sha256(evidence.raw(`ground_truth/${name}`)));
  expect(evidence.dataset.length && evidence.gold, "ground_truth: expected episodes");
}

const BATCH = ["episodes_recorded", "episode_failed", "episode_refused"];
const STEP = ["hitl_opened", "human_score", "human_score_refused", "step_completed", "step_failed",
  "step_skipped", "escalated"];
const STATES = { created: [null, "DRAFT"], committed: ["DRAFT", "COMMITTED"],
  activated: ["COMMITTED", "ACTIVE"], settling: ["ACTIVE", "SETTLING"] };

async function checkAuditChain(evidence) {
  const { trail, receipt, template } = evidence;
  let head = "0".repeat(64);
  for (const [seq, entry] of trail.entries()) {
    const { entry_hash: stated, ...linked } = entry;
    const [from, to] = STATES[entry.event_type] ?? [null, null];
    const hash = await sha256(bytesOf(canonical(linked)));
    same(`audit_trail.jsonl, entry ${seq}`, {
      seq, prev_entry_hash: head, theatre_id: receipt.theatre_id, from_state: from, to_state: to,
      event_type: entry.event_type, detail: entry.detail, at: entry.at, entry_hash: hash,
    }, entry);
    head = stated;
  }
  const events = trail.map((entry) => entry.event_type);
  const settling = events.indexOf("settling");
  expect(events.slice(0, 3).join() === "created,committed,activated" && settling > 0
    && events.slice(3, settling).every((event) => BATCH.includes(event))
    && events.slice(settling + 1, -1).every((event) => STEP.includes(event))
    && events.at(-1) === "sealed", "audit_trail.jsonl: another order than the lifecycle has");
  same("created", [{ template_id: template.theatre_id }], evidence.details("created"));
  same("settling", [{}], evidence.details("settling"));
  requireActivation(evidence);
  const { issuer } = evidence.only("sealed");
  expect(typeof issuer === "string" && issuer, "sealed/issuer: expected a name");
  const { at } = trail.at(-1);
  const name = `certificate:${await evidence.commitmentHash}`;
  same("sealed", {
    certificate_id: evidence.isReproduction ? null : await uuid5(receipt.theatre_id, name),
    issuer, issued_at: at, theatre_resolved_at: at,
  }, evidence.only("sealed"));
}

function requireActivation(evidence) {
  const { activated, template, chain } = evidence;
  const programme = template.resolution_programme;
  const computations = programme.filter((step) => step.type === "deterministic_computation");
  const form = ["adapters", "computations", "environment", "episodes", "isolation",
    "previous_environment", "sanitiser", "scorers"];
  if (programme.some((step) => step.type === "hitl_rubric")) form.push("authors");
  if (hasOwn(activated, "run_nonce")) form.push("run_nonce");
  if ((activated.run_nonce ?? null) !== null || form.includes("run_nonce"))
    expect(isSha256(activated.run_nonce), "activated/run_nonce: expected a SHA-256");
  const names = (value) => Object.keys(value).sort();
  same("activated", form.sort(), names(activated));
  for (const name of ["environment", "previous_environment"])
    requireEnvironment(activated[name], `activated/${name}`);
  same("activated/isolation", [...chain].sort(), names(activated.isolation));
  Object.values(activated.isolation).forEach((one) => requireIsolation(one, "activated/isolation"));
  same("activated/computations",
    [...new Set(computations.map((step) => step.input_spec.computation))].sort(),
    names(activated.computations));
  same("activated/adapters", [...chain].sort(), names(activated.adapters));
  const sanitises = evidence.policy.sanitise_input ?? true;
  expect(sanitises ? typeof activated.sanitiser === "string" : activated.sanitiser === null,
    "activated/sanitiser: there, or not, against what was committed");
  if (activated.authors) same("activated/authors", [...chain].sort(), names(activated.authors));
  const texts = [activated.adapters, activated.scorers, activated.computations,
    activated.authors ?? {}].flatMap(Object.values);
  expect(texts.every((one) => one === null || typeof one === "string"), "activated: expected texts");
  const config = template.product_theatre_config;
  for (const [name, adapter] of Object.entries(activated.adapters)) {
    const { adapter_type: type } = config.construct_endpoints?.[name] ?? config;
    const kind = adapter.split("@")[0];
    expect([null, adapter].includes(template.version_pins.adapter_version ?? null)
      && type !== "mock" && (kind === type || (kind === "plain_http" && type === "http")),
      `activated/adapters: ${name} by an adapter that was not committed`);
  }
  // One construct for the whole run: another adapter may lead to another program.
  for (const [seq, { calls }] of evidence.records)
    for (const { construct_id: name, adapter } of calls)
      expect(adapter === activated.adapters[name],
        `record ${seq}: ${name} by another adapter than activated/adapters names`);
}

async function checkAuditEpisodes(evidence) {
  const size = evidence.dataset.length;
  same("activated/episodes", size, evidence.activated.episodes);
  const batched = new Set();
  const expected = [];
  for (const detail of evidence.details("episodes_recorded")) {
    const seqs = [];
    for (const pair of detail.seqs) {
      const [first, last] = pair;
      expect(pair.length === 2 && Number.isInteger(first) && Number.isInteger(last), "episodes_recorded: expected numbers");
      for (let seq = first; seq <= last && seqs.length <= size; seq++) seqs.push(seq);
    }
    expect(seqs.length && seqs.every((seq, at) => !batched.has(seq) && (!at || seqs[at - 1] < seq))
      && isSha256(detail.journal_sha256), "episodes_recorded: expected new episodes in order");
    const records = seqs.map((seq) => evidence.records.get(seq));
    seqs.forEach((seq, at) => batched.add(seq) && expect(records[at], `episode ${seq}: no record`));
    expected.push(["episodes_recorded", {
      seqs: detail.seqs, journal_sha256: detail.journal_sha256,
      records_sha256: await sha256(joined(...records.map((record) => record.raw))),
      statuses: Object.fromEntries(STATUSES.map((word) =>
        [word, records.filter((record) => record.status === word).length])),
    }]);
    for (const record of records.filter(({ status }) => status !== "success"))
      expected.push([`episode_${record.status === "refused" ? "refused" : "failed"}`,
        record.trouble]);
  }
  const recorded = evidence.trail.filter((entry) => BATCH.includes(entry.event_type));
  same("audit_trail.jsonl, batches", expected,
    recorded.map((entry) => [entry.event_type, entry.detail]));
  // Records that no batch has could be exchanged after the run, and head and certificate hold.
  expect(batched.size === evidence.records.size, "other episodes than there are records");
}

function checkTimes(evidence) {
  const stamps = evidence.trail.map((entry) => moment(entry.at));
  // Who answers first and commits afterwards knows what he commits to.
  expect(stamps.every((at, n) => !n || stamps[n - 1] <= at), "audit_trail.jsonl: an earlier entry");
  const committed = moment(evidence.receipt.committed_at);
  for (const [seq, { times: calls }] of evidence.records)
    for (const row of calls) {
      expect(row[0] >= committed - 5_000_000n, `record ${seq}: a call before the commitment`);
      expect(row.every((at, n) => !n || row[n - 1] <= at), `record ${seq}: an answer before its call`);
      expect(row.at(-1) <= stamps.at(-1), `record ${seq}: an answer behind the sealing`);
    }
  expect(stamps.at(-1) <= BigInt(evidence.now) * 1000n + 300_000_000n, "a time that is yet to come");
}

async function checkOutcomes(evidence) {
  const run = await runOf(evidence);
  const stated = evidence.values("scores/per_episode.jsonl");
  run.lines.forEach((line, at) => same(`episode ${line.seq}`, line.outcome, stated[at].outcome));
  expect(run.outcomes.scored, "no episode was scored");
}

async function checkScores(evidence) {
  const stated = evidence.values("scores/per_episode.jsonl");
  (await runOf(evidence)).lines.forEach((line, at) =>
    same(`scores/per_episode.jsonl, line ${line.seq}`, line, stated[at]));
  return "no scorer is run: each score is taken as its line states it";
}

async function checkAggregate(evidence) {
  const { results_hash: _, ...stated } = evidence.aggregate;
  const expected = await recomputed(evidence);
  const near = {};
  for (const [name, interval] of Object.entries(expected.score_intervals)) {
    const { low, high } = stated.score_intervals[name];
    // Floating point may differ in its last place between machines.
    const isNear = typeof low === "number" && typeof high === "number" && interval.low !== null
      && Math.abs(low - interval.low) <= 2e-6 && Math.abs(high - interval.high) <= 2e-6;
    near[name] = isNear ? { ...interval, low, high } : interval;
  }
  same("scores/aggregate.json", { ...expected, score_intervals: near }, stated);
  return evidence.notes.join("; ");
}

async function checkResultsHash(evidence) {
  const { results_hash: stated, score_intervals: _, ...kept } = evidence.aggregate;
  const raw = evidence.raw("scores/per_episode.jsonl");
  const hash = await sha256(joined(raw, bytesOf(canonical(kept))));
  same("scores/aggregate.json/results_hash", hash, stated);
  if (!evidence.isReproduction)
    same("certificate.json/results_hash", hash, evidence.certificate.results_hash);
}

async function checkTier(evidence) {
  const stated = evidence.json("tier.json");
  const { at } = evidence.trail.at(-1);
  requireHistory(stated.history, evidence.receipt.theatre_id, at);
  const facts = await factsOf(evidence);
  // From facts that were counted here: a tier that is only stated is not earned.
  same("tier.json", { facts, history: stated.history,
    assessment: assess(facts, stated.history, at) }, stated);
}

// ---- Signatures and logs (docs/contract/trust.md; DSSE, Sigstore bundle, C2SP notes) ----

const P256_HEAD = unhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004");
const KNOWN = {
  // RFC 8032, 7.1, test 3: a signature of the bytes af82.
  key: "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
  signature: "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
    + "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
};

/**
 * r and s, 32 bytes each, of a P-256 signature in DER, as WebCrypto takes them. Minimal DER alone:
 * a second spelling of one signature would be a second document that is signed.
 */
export function rawSignature(der) {
  const fail = () => {
    throw new Defect("expected a signature in minimal DER");
  };
  if (der.length < 8 || der.length > 72 || der[0] !== 0x30 || der[1] !== der.length - 2) fail();
  let at = 2;
  const number = () => {
    const length = der[at + 1];
    const bytes = der.subarray(at + 2, at + 2 + length);
    if (der[at] !== 0x02 || !length || bytes.length !== length || bytes[0] & 0x80) fail();
    if (bytes[0] === 0 && (length === 1 || !(bytes[1] & 0x80))) fail();
    at += 2 + length;
    const digits = bytes[0] === 0 ? bytes.subarray(1) : bytes; // one zero keeps it positive
    if (digits.length > 32) fail();
    return joined(new Uint8Array(32 - digits.length), digits);
  };
  const both = joined(number(), number());
  if (at !== der.length) fail();
  return both;
}

async function signedByP256(spki, signature, message) {
  const key = await subtle.importKey("spki", spki, { name: "ECDSA", namedCurve: "P-256" }, false,
    ["verify"]);
  const raw = rawSignature(signature);
  return subtle.verify({ name: "ECDSA", hash: "SHA-256" }, key, raw, message);
}

async function signedByEd25519(publicKey, signature, message) {
  const key = await subtle.importKey("raw", publicKey, { name: "Ed25519" }, false, ["verify"]);
  return subtle.verify({ name: "Ed25519" }, key, signature, message);
}
let ed25519;
/** Older browsers have no Ed25519. It must accept a known signature and refuse another. */
async function requireEd25519() {
  ed25519 ??= (async () => {
    try {
      const ask = (word) =>
        signedByEd25519(unhex(KNOWN.key), unhex(KNOWN.signature), unhex(word));
      return (await ask("af82")) && !(await ask("af83"));
    } catch {
      return false;
    }
  })();
  if (!(await ed25519)) throw new Unsettled("cannot check here: this browser has no Ed25519");
}

const MAX_PROOF = 256 * 1024;
const MAX_NOTE = 64 * 1024;
/** A size or an index; past 2^53 - 1 no double could hold it, and no log is so large. */
function size(text) {
  expect(/^(0|[1-9][0-9]{0,15})$/.test(text) && Number.isSafeInteger(Number(text)),
    `expected a decimal number, got ${text.slice(0, 40)}`);
  return Number(text);
}

/** The key of a log (1) or a witness (4): `name+id+base64`. */
async function noteKey(text) {
  const parts = text.split("+");
  const [name, id, material] = [parts[0], parts[1], unbase64(parts.slice(2).join("+"))];
  const named = joined(bytesOf(`${name}\n`), material);
  expect(/^[^\s+]+$/.test(name) && [1, 4].includes(material[0]) && material.length === 33
    && hex((await digest(named)).subarray(0, 4)) === id, `expected the key of a log or a witness`);
  return { name, id, kind: material[0], key: material.subarray(1), text };
}

/** The text of a note, and its signature lines. */
function parseNote(bytes) {
  const text = textOf(bytes);
  expect(bytes.length <= MAX_NOTE && !/[\u0000-\u0009\u000b-\u001f]/.test(text),
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
  let cut = -1;
  for (let at = 0; at + 1 < bytes.length && cut < 0; at++)
    if (bytes[at] === 10 && bytes[at + 1] === 10) cut = at;
  expect(bytes.length <= MAX_PROOF && cut >= 0, "expected a tlog-proof of at most 256 KiB");
  const lines = textOf(bytes.subarray(0, cut)).split("\n");
  expect(lines.shift() === "c2sp.org/tlog-proof@v1", "expected a tlog-proof");
  if (lines[0]?.startsWith("extra ")) unbase64(lines.shift().slice(6));
  expect(lines[0]?.startsWith("index "), "expected a line with the entry's index");
  const place = size(lines.shift().slice(6));
  const hashes = lines.map(unbase64);
  expect(hashes.length <= 63 && hashes.every((one) => one.length === 32),
    "expected at most 63 hashes of 32 bytes");
  return { place, hashes, note: bytes.subarray(cut + 2) };
}

/** The root that a proof leads to from an entry's hash (RFC 9162, 2.1.3.2). */
export async function rootAbove(leaf, place, treeSize, hashes) {
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

/** A tlog-policy: logs, witnesses, groups of them, and the quorum. */
async function parsePolicy(text) {
  expect(!/[\u0000-\u0008\u000b-\u001f\u007f]/.test(text), "expected a policy without controls");
  const policy = { logs: [], witnesses: new Map(), groups: new Map(), quorum: null };
  const isKnown = (name) => name === "none" || policy.witnesses.has(name) || policy.groups.has(name);
  const newKey = async (vkey, kind, others) => {
    const key = await noteKey(vkey);
    // Under two names one key would count twice.
    expect(key.kind === kind && !others.some((one) => sameBytes(one.key, key.key)),
      "expected a new key of its kind in the policy");
    return key;
  };
  for (const line of text.split("\n")) {
    const [word, ...rest] = line.split(/[ \t]+/).filter(Boolean);
    if (!word || word.startsWith("#")) continue;
    const [name, second, ...members] = rest;
    if (word === "log" && [1, 2].includes(rest.length))
      policy.logs.push(await newKey(name, 1, policy.logs));
    else if (word === "witness" && [2, 3].includes(rest.length) && !isKnown(name))
      policy.witnesses.set(name, await newKey(second, 4, [...policy.witnesses.values()]));
    else if (word === "group" && members.length && !isKnown(name)) {
      const least = { any: 1, all: members.length }[second] ?? size(second);
      const taken = [...policy.groups.values()].flatMap((one) => one.members);
      expect(least >= 1 && least <= members.length && new Set(members).size === members.length
        && members.every((one) => one !== "none" && isKnown(one) && !taken.includes(one)),
        "expected a group of known members");
      policy.groups.set(name, { least, members });
    } else if (word === "quorum" && rest.length === 1 && policy.quorum === null && isKnown(name))
      policy.quorum = name;
    else throw new Defect(`expected a line of a policy, got ${line.slice(0, 60)}`);
  }
  expect(policy.quorum !== null, "expected a line with the quorum in the policy");
  return policy;
}
function isEnough(policy, name, seen) {
  if (name === "none") return true;
  if (policy.witnesses.has(name)) return seen.has(name);
  const { least, members } = policy.groups.get(name);
  return members.filter((one) => isEnough(policy, one, seen)).length >= least;
}

/** Whom the reader trusts, from an issuer's trust.json. */
export async function parseTrust(bytes) {
  const document = parseJson(bytes, "trust.json");
  const keys = new Map();
  for (const one of document.keys) {
    const der = unbase64(one.public_key);
    expect(der.length === 91 && sameBytes(der.subarray(0, 27), P256_HEAD)
      && await sha256(der) === one.kid && !keys.has(one.kid),
      "trust.json: expected P-256 keys in DER, each once, its id its hash");
    const revoked = one.revoked_index;
    expect(revoked === null || Number.isInteger(revoked), "trust.json: expected an index");
    const time = (text) => moment(/\.\d+Z$/.test(text)
      ? text.replace(/\.(\d+)Z$/, (_, part) => `.${part.padEnd(6, "0")}Z`)
      : text.replace(/Z$/, ".000000Z"));
    keys.set(one.kid, { der, from: time(one.valid_from), revoked,
      until: one.valid_until === null ? null : time(one.valid_until) });
  }
  const log = await noteKey(document.log.vkey);
  expect(document.log.origin === log.name && typeof document.issuer === "string",
    "trust.json: expected an issuer and its log");
  return { issuer: document.issuer, keys, log, policy: await parsePolicy(document.policy) };
}

/** What the checks of the proofs hand on: each rests on those before it, and says so. */
class Proofs {
  constructor(evidence, trust, from) {
    Object.assign(this, { evidence, trust, from });
  }
  rests(on, what) {
    if (on === undefined) throw new Unsettled(`rests on ${what}`);
    return on;
  }
  file(name) {
    const bytes = this.evidence.files.get(`proofs/${name}`);
    if (this.evidence.isReproduction) throw new Unsettled("a reproduction certifies nothing");
    if (!bytes) throw new Unsettled(`no proofs/${name}`);
    return bytes;
  }
  trusted() {
    if (!this.trust) throw new Unsettled("give the issuer's trust.json to verify it");
    return this.trust;
  }
  async signature() {
    const data = this.file("certificate.sigstore.json");
    const { keys } = this.trusted();
    expect(data.length <= 1024 * 1024, "expected at most 1 MiB");
    const { dsseEnvelope: envelope } = parseJson(data, "certificate.sigstore.json");
    expect(envelope.signatures.length === 1, "expected one signature");
    const [{ keyid: kid, sig }] = envelope.signatures;
    const payloadType = "application/vnd.in-toto+json";
    expect(sameBytes(data, bytesOf(`${canonical({
      mediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
      verificationMaterial: { publicKey: { hint: kid } },
      dsseEnvelope: { payload: envelope.payload, payloadType, signatures: [{ keyid: kid, sig }] },
    })}\n`)), "expected a Sigstore bundle of these members in canonical JSON");
    if (!keys.has(kid))
      throw new Defect("expected a signature by a trusted key", [...keys.keys()].join(" or "), kid);
    const payload = unbase64(envelope.payload);
    const frame = `DSSEv1 ${payloadType.length} ${payloadType} ${payload.length} `;
    expect(await signedByP256(keys.get(kid).der, unbase64(sig), joined(bytesOf(frame), payload)),
      `expected a signature by ${kid}, got another`);
    const statement = parseJson(payload, "the statement");
    const { certificate } = this.evidence;
    const { commitment_log: log } = statement.predicate;
    expect(log === null || isObject(log), "expected a statement that names a log, or none");
    same("the statement", {
      _type: "https://in-toto.io/Statement/v1",
      subject: [{ name: "SHA256SUMS", digest: { sha256: certificate.evidence_bundle_hash } }],
      predicateType: "urn:echelon:attestation:calibration-certificate:v1",
      predicate: { certificate, commitment_log: log },
    }, statement);
    expect(sameBytes(payload, bytesOf(canonical(statement))), "expected a canonical statement");
    Object.assign(this, { kid, payload, statement });
    const from = this.from ? `, by ${this.from}: who trusts that trusts its maker` : "";
    return `signed by key ${kid} of ${this.trust.issuer}${from}`;
  }
  async commitment() {
    const data = this.file("commitment.tlog-proof");
    const { certificate, template, policy, paths } = this.evidence;
    const [text] = parseNote(parseProof(data).note);
    // A run without the value that the log gave may have begun before.
    same("the nonce of the run", await sha256(bytesOf(text)), hex(this.evidence.nonce));
    this.trusted();
    await requireEd25519();
    const days = template.schema_version === "2.2.0" ? policy.close_within_days ?? 30 : 30;
    const take = (names) => Object.fromEntries(names.map((name) => [name, certificate[name]]));
    const entry = {
      ...take(["theatre_id", "construct_id", "construct_version", "template_id", "coin_sha256",
        "commitment_hash"]),
      type: "commitment/v1",
      close_by: writtenTime(moment(certificate.theatre_committed_at) + BigInt(days) * DAY),
    };
    const entries = [entry];
    if (paths.includes("coin.txt")) {
      // A template that is not public: the coin opens the entry.
      const salted = hex(await hmac(this.evidence.coin, bytesOf(certificate.commitment_hash)));
      entries.push({ ...entry, commitment_hash: salted, salted: true });
    }
    this.committed = await this.lookUp(data, entries);
    return `entry ${this.committed.place} of ${this.committed.origin}`;
  }
  async certified() {
    const data = this.file("certificate.tlog-proof");
    this.trusted();
    const { certificate } = this.evidence;
    this.rests(this.committed && this.kid, "the signature and the commitment's proof");
    this.closed = await this.lookUp(data, [{
      type: "certificate/v1", theatre_id: certificate.theatre_id,
      commitment_index: this.committed.place, statement_sha256: await sha256(this.payload),
      tier: certificate.verification_tier, expires_at: certificate.expires_at,
    }]);
    return `entry ${this.closed.place} of ${this.closed.origin}`;
  }
  /** Where the trusted log has one of these entries, and which witnesses saw it. */
  async lookUp(data, entries) {
    const { log, policy } = this.trust;
    const { place, hashes, note } = parseProof(data);
    const [text, lines] = parseNote(note);
    const [origin, count, root, end] = text.split("\n");
    expect(origin && end === "" && text.split("\n").length === 4 && unbase64(root).length === 32,
      "expected a checkpoint of three lines");
    const isOurs = policy.logs.some((one) => one.text === log.text) && origin === log.name;
    const theirs = lines.filter((one) => isOurs && one.name === log.name && one.id === log.id);
    expect(theirs.length, `expected a checkpoint of a trusted log, got one of ${origin}`);
    for (const { signature } of theirs)
      expect(await signedByEd25519(log.key, signature, bytesOf(text)),
        `expected a signature by ${log.name}, got another`);
    const cosigned = new Map();
    for (const { name, id, signature } of lines) {
      const known = [...policy.witnesses].find(([, key]) => key.name === name && key.id === id);
      if (!known) continue; // a line of a stranger says nothing
      const at = new DataView(joined(signature).buffer).getBigUint64(0);
      const message = bytesOf(`cosignature/v1\ntime ${at}\n${text}`);
      expect(await signedByEd25519(known[1].key, signature.subarray(8), message),
        `expected a cosignature by ${name}, got another`);
      cosigned.set(known[0], at);
    }
    for (const entry of entries) {
      const raw = bytesOf(canonical(entry));
      const leaf = await digest(joined([0], raw));
      if (raw.length <= 1024
        && sameBytes(await rootAbove(leaf, place, size(count), hashes), unbase64(root)))
        return { place, origin, size: size(count), text, cosigned };
    }
    throw new Defect(`expected a proof of entry ${place} in the tree of ${count}, got another`);
  }
  async signer() {
    const key = this.trusted().keys.get(this.rests(this.kid, "the signature"));
    const seen = [...(this.closed?.cosigned.values() ?? [])];
    const at = seen.length ? seen.reduce((a, b) => (a < b ? a : b)) * 1_000_000n
      : moment(this.evidence.certificate.issued_at);
    expect(at >= key.from && (key.until === null || at <= key.until),
      `expected a signature while its key counts, got ${writtenTime(at)}`);
    // What no log has could have been signed by a thief at any time.
    expect(key.revoked === null || (this.closed && this.closed.place < key.revoked),
      `expected a key that is not revoked, got ${this.kid}`);
    return seen.length ? "at a time that was witnessed" : "at a time that is the issuer's own word";
  }
  async order() {
    const [first, last] = [this.committed, this.rests(this.closed, "both entries")];
    expect(first.place < first.size && first.size <= last.place && last.place < last.size,
      "expected the commitment's checkpoint before the certificate's entry");
    same("the statement's commitment_log",
      { origin: first.origin, index: first.place, checkpoint: first.text },
      this.statement.predicate.commitment_log);
    return `committed at ${first.place}, certified at ${last.place}`;
  }
  async witnesses() {
    const both = [this.committed, this.rests(this.closed, "both entries")];
    const { policy } = this.trust;
    for (const { cosigned } of both)
      expect(isEnough(policy, policy.quorum, cosigned), `expected the witnesses of ${policy.quorum}`);
    if (both.some(({ cosigned }) => !cosigned.size))
      throw new Unsettled("no witness is asked for: the log's word alone");
    return `cosigned by ${sorted(both.flatMap(({ cosigned }) => [...cosigned.keys()])).join(", ")}`;
  }
}

// ---- The result ----

const CHECKS = {
  inventory: checkInventory, sums: checkSums, "canonical-form": checkCanonicalForm,
  "bundle-hash": checkBundleHash, manifest: checkManifest,
  "certificate-copy": checkCertificateCopy,
  template: (evidence) => {
    same("template.json", evidence.receipt.template_snapshot, evidence.template);
    return "equal to the receipt's snapshot; its rules are not checked here";
  },
  commitment: checkCommitment, coin: checkCoin, datasets: checkDatasets,
  "audit-chain": checkAuditChain, "audit-episodes": checkAuditEpisodes, times: checkTimes,
  outcomes: checkOutcomes, scores: checkScores, aggregate: checkAggregate,
  "results-hash": checkResultsHash, tier: checkTier, "certificate-fields": checkCertificateFields,
};
/** What can be checked where a template withholds episodes: the rest needs `echelon check`. */
const OF_PUBLISHED = ["canonical-form", "bundle-hash", "manifest", "certificate-copy", "template",
  "commitment", "audit-chain", "results-hash"];

/**
 * Verify a bundle.
 * @param {Map<string, Uint8Array>} files  path below the bundle's folder → bytes
 * @param {{trust?: Uint8Array, trustFrom?: string, kept?: Uint8Array, now?: number}} options
 *   `trust`: the issuer's trust.json; `trustFrom`: where it came from, if not from him; `kept`: the certificate as
 *   the reader has it from elsewhere; `now`: milliseconds since 1970
 * @returns {Promise<{lines: {id: string, status: string, expected: string, got: string,
 *   why: string}[], failed: string[], unchecked: string[], ok: boolean, verdict: string}>}
 *   `ok` is never true while a line has failed, and says no more than that none has.
 */
export async function verify(files, { trust, trustFrom = "", kept, now = Date.now() } = {}) {
  if (!subtle) throw new Error(NEEDS_CRYPTO);
  const evidence = new Evidence(files, { kept, now });
  const found = new Map(Object.entries(NOT_MADE).map(([id, why]) => [id, [UNCHECKED, { why }]]));
  const check = async (id, make) => {
    try {
      found.set(id, [OK, { why: (await make()) ?? "" }]);
    } catch (error) {
      if (error instanceof Unsettled) found.set(id, [UNCHECKED, { why: error.message }]);
      else {
        const isKnown = error instanceof Defect;
        const why = isKnown ? error.message : `not of the expected form (${error.message})`;
        found.set(id, [FAILED, { why, expected: error.expected, got: error.got }]);
      }
    }
  };
  for (const [id, make] of Object.entries(CHECKS))
    await check(id, () => {
      if (evidence.isPublished && !OF_PUBLISHED.includes(id))
        throw new Unsettled("this template withholds episodes");
      return make(evidence);
    });
  let trusted;
  if (trust) await check("signature", async () => (trusted = await parseTrust(trust)) && "");
  const proofs = new Proofs(evidence, trusted, trustFrom);
  if (trust && !trusted) {
    // A broken trust.json trusts no one: that is red, and no proof is looked at.
    for (const id of ["signer-trusted", "commitment-logged", "certificate-logged", "order",
      "witnesses"]) found.set(id, [UNCHECKED, { why: "no trust.json that can be read" }]);
  } else {
    await check("signature", () => proofs.signature());
    await check("commitment-logged", () => proofs.commitment());
    await check("certificate-logged", () => proofs.certified());
    await check("signer-trusted", () => proofs.signer()); // at the time of the certificate's entry
    await check("order", () => proofs.order());
    await check("witnesses", () => proofs.witnesses());
  }
  const lines = IDS.map((id) => {
    const [status, { why, expected = "", got = "" }] = found.get(id);
    return { id, status, expected, got, why };
  });
  const of = (status) => lines.filter((line) => line.status === status).map((line) => line.id);
  const [failed, unchecked] = [of(FAILED), of(UNCHECKED)];
  return { lines, failed, unchecked, ok: !failed.length, verdict: inWords(lines, failed, unchecked) };
}

const NEEDS_CRYPTO = "a browser verifies only in pages that came by https, from this machine "
  + "(http://localhost) or from a file: here it gives no cryptography to scripts";

function inWords(lines, failed, unchecked) {
  if (failed.length)
    return `not valid: ${failed.length} of ${lines.length} checks failed: ${failed.join(", ")}`;
  const made = lines.length - unchecked.length;
  return `verified in your browser: ${made} of ${lines.length}; ${unchecked.length} need `
    + `\`echelon check\`: ${unchecked.join(", ")}`;
}

// What page.js uses: a page that is one file has no address to import a module from.
globalThis.echelonVerify = { verify, readArchive, atRoot, OK, FAILED, UNCHECKED,
  needs: subtle ? null : NEEDS_CRYPTO };

// ---- The command ----

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

async function unpacked(bytes) {
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
  const asJson = words.includes("--json");
  const at = words.indexOf("--trust");
  const rest = words.filter((word, n) => word !== "--json" && (at < 0 || (n !== at && n !== at + 1)));
  if (rest.length !== 1 || rest[0].startsWith("-") || (at >= 0 && at + 1 === words.length)) {
    console.error("usage: node verify.js BUNDLE [--trust trust.json] [--json]");
    return 2;
  }
  let files;
  let trust;
  try {
    files = (await stat(rest[0])).isDirectory() ? await readFolder(rest[0])
      : await readArchive(new Uint8Array(await readFile(rest[0])));
    trust = at < 0 ? undefined : new Uint8Array(await readFile(words[at + 1]));
  } catch (error) {
    console.error(`expected the folder of an evidence bundle, and files: ${error.message}`);
    return 2;
  }
  if (!files.has("certificate.json") && !files.has("reproduction.json")) {
    console.error("expected the folder of an evidence bundle, with a certificate.json");
    return 2;
  }
  const result = await verify(files, { trust });
  // Names are a stranger's: none may steer a terminal.
  const plain = (text) => text.replace(/[^\x20-\x7e]/gu, "?");
  if (asJson) console.log(JSON.stringify(result, null, 2));
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
