// What a page does beyond its text: it searches lists, says when a tier has lapsed since it was
// made, and verifies bundles. Without scripts the lists are whole, and the date of expiry stands in the text.
"use strict";

for (const input of document.querySelectorAll("input[data-filters]")) {
  const items = [...document.getElementById(input.dataset.filters).children];
  const texts = items.map((item) => item.textContent.toLowerCase());
  const output = input.parentElement.querySelector("output");
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    let shown = 0;
    items.forEach((item, place) => {
      item.hidden = !texts[place].includes(wanted);
      shown += item.hidden ? 0 : 1;
    });
    output.textContent = wanted ? `${shown} of ${items.length}` : "";
  });
  input.parentElement.hidden = false;
}

for (const verdict of document.querySelectorAll("[data-expires]")) {
  if (Date.now() >= Date.parse(verdict.dataset.expires)) {
    verdict.classList.remove("good", "warn");
    verdict.classList.add("bad");
    verdict.querySelector(".standing").hidden = true;
    verdict.querySelector(".lapsed").hidden = false;
  }
}

// On paper nothing can be opened.
matchMedia("print").addEventListener("change", ({ matches }) => {
  for (const fields of document.querySelectorAll("details:has(> .fields)")) fields.open = matches;
});

// Verification: verify.js computes, this unpacks and shows. The page's own bundle lies in the page
// (a file) or comes from its service; a reader's own is chosen or dropped, and goes nowhere.
const verification = document.getElementById("verification");
if (verification) {
  // Modules run before this event, so that of a saved page is there.
  addEventListener("DOMContentLoaded", () => offerVerification(verification));
}

function offerVerification(section) {
  const make = (name, words = "", members = {}) =>
    Object.assign(document.createElement(name), { textContent: words }, members);
  const bytesIn = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const status = make("p", "", { role: "status" });
  const lines = make("div");
  const held = JSON.parse(document.getElementById("bundle")?.textContent ?? "null");
  const { bundle, trust: trustAddress, module } = section.dataset;
  const buttons = make("p", "", { className: "no-print" });
  const start = make("button", "Verify in this browser", { type: "button" });
  const hint = make("p", "Or drop a bundle here: its folder, its files or its .tar.gz. "
    + "It stays in this browser.", { className: "no-print" });
  const pick = (words, members) => {
    const label = make("label", `${words} `);
    const input = make("input", "", { type: "file", ...members });
    label.append(input);
    return [label, input];
  };
  const [folderLabel, folder] = pick("A folder:", { webkitdirectory: true });
  const [fileLabel, file] = pick("An archive or files:", { multiple: true });
  const [trustLabel, ownTrust] = pick("The issuer’s trust.json, as you have it:", {});
  const choices = make("div", "", { className: "choices no-print" });
  choices.append(folderLabel, fileLabel, trustLabel);
  if (held || bundle) buttons.append(start);
  section.append(buttons, hint, choices, status, lines);

  const load = async () => globalThis.echelonVerify
    ?? (await import(module), globalThis.echelonVerify);
  const fetched = async (address) => {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`expected ${address}, got the answer ${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
  };

  /** Whose keys count: those of the reader's own file, else those that came with what is checked. */
  const trusted = async (files, isOurs) => {
    if (ownTrust.files.length)
      return { trust: new Uint8Array(await ownTrust.files[0].arrayBuffer()) };
    if (isOurs && held?.trust)
      return { trust: bytesIn(held.trust), trustFrom: "the trust.json in this page" };
    if (isOurs && trustAddress)
      return { trust: await fetched(trustAddress), trustFrom: "the trust.json of this service" };
    const inside = files.get("proofs/trust.json");
    return inside ? { trust: inside, trustFrom: "the trust.json in the bundle" } : {};
  };

  /** What a check that holds has shown, where it does not say so itself. */
  const shown = {
    inventory: "every file is listed, and no other is there",
    sums: "every file has the digest that is listed",
    "canonical-form": "every document has its one spelling",
    "bundle-hash": "the certificate is about these files",
    manifest: "the list of files belongs to this run",
    commitment: "test, versions and questions hash to what was committed",
    coin: "what drew order and samples was committed, too",
    datasets: "questions and right answers are those that were committed",
    "audit-chain": "every entry of the run's trail follows from the one before",
    "audit-episodes": "the recorded answers are those of the trail",
    outcomes: "what was answered, missed and refused follows from the records",
    aggregate: "scores and counts follow from the lines of scores",
    "results-hash": "the results hash to what the certificate says",
    tier: "the tier follows from facts that were counted here",
    "certificate-fields": "the certificate says what the evidence says",
  };
  const show = (result) => {
    const list = make("ul", "", { className: "checks" });
    const signs = { ok: "✓", failed: "✕", "not checked": "–" };
    for (const { id, status: word, expected, got, why } of result.lines) {
      const item = make("li", "", { className: word.replace(" ", "-") });
      item.dataset.id = id;
      item.append(make("span", signs[word], { ariaHidden: "true" }), ` ${word} `, make("code", id));
      const says = why || (word === "ok" && shown[id]) || "";
      const detail = (expected || got) && !says.includes(expected) ? `${says} (expected ${expected}, got ${got})` : says;
      if (detail) item.append(make("bdi", `: ${detail.slice(0, 600)}`, { dir: "auto" }));
      list.append(item);
    }
    status.textContent = result.verdict;
    // Never green as a whole: what no browser can check has not been checked.
    status.className = result.ok ? "verdict warn" : "verdict bad";
    lines.replaceChildren(list);
  };

  let last = [];
  const run = async (read, isOurs) => {
    const asked = last = [read, isOurs];
    lines.replaceChildren();
    status.className = "";
    status.textContent = "Verifying…";
    try {
      const { verify, needs } = await load();
      if (needs) throw new Error(needs);
      const files = await read();
      const result = await verify(files, await trusted(files, isOurs));
      if (asked === last) show(result);
    } catch (error) {
      status.className = "verdict bad";
      status.textContent = `Nothing was verified: ${error.message}`;
    }
  };

  const filesOf = async (pairs) => {
    const read = await Promise.all(
      pairs.map(async ([path, one]) => [path, new Uint8Array(await one.arrayBuffer())]));
    if (read.length === 1) return readArchive(read[0][1]);
    return atRoot(new Map(read));
  };
  /** Paths and files of what was dropped: a handle, an entry where a browser has no handles. */
  const walk = async (one, above = "") => {
    const path = `${above}${one.name}`;
    if (one.getFile) return [[path, await one.getFile()]];
    if (one.isFile) return [[path, await new Promise((done, fail) => one.file(done, fail))]];
    const found = [];
    if (one.values) {
      for await (const child of one.values()) found.push(...await walk(child, `${path}/`));
      return found;
    }
    const reader = one.createReader();
    for (;;) {
      // A reader gives some hundred at a time, and none at the end.
      const some = await new Promise((done, fail) => reader.readEntries(done, fail));
      if (!some.length) return found;
      for (const child of some) found.push(...await walk(child, `${path}/`));
    }
  };

  start.addEventListener("click", () => run(async () =>
    readArchive(held ? bytesIn(held.archive) : await fetched(bundle)), true));
  for (const input of [folder, file])
    input.addEventListener("change", () => {
      const pairs = [...input.files].map((one) => [one.webkitRelativePath || one.name, one]);
      if (pairs.length) run(() => filesOf(pairs), false);
    });
  // Other keys make another result: what stands there was checked against those of before.
  ownTrust.addEventListener("change", () => last.length && run(...last));
  // What is dropped on a file input is that input's, as everywhere.
  const isInput = (event) => event.target.type === "file";
  section.addEventListener("dragover", (event) => isInput(event) || event.preventDefault());
  section.addEventListener("drop", (event) => {
    if (isInput(event)) return;
    event.preventDefault();
    // Items are there only as long as this event is handled. In a page that is a file Chromium
    // reads no entry, but it reads handles.
    const dropped = [...event.dataTransfer.items].filter((item) => item.kind === "file")
      .map((item) => item.getAsFileSystemHandle?.() ?? item.webkitGetAsEntry());
    if (dropped.length)
      run(async () => filesOf(
        (await Promise.all(dropped.map(async (one) => walk(await one)))).flat()), false);
  });
  if (!globalThis.isSecureContext || !globalThis.crypto?.subtle)
    status.textContent = "This page came by plain http from another machine: browsers give no "
      + "cryptography to scripts there. Open it by https, from this machine, or save it as a file.";
}

const MAX_UNPACKED = 512 * 1024 * 1024;

/** The files of a bundle's archive: tar, packed with gzip or not, as the service sends it. */
async function readArchive(bytes) {
  const isPacked = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const tar = isPacked ? await unpacked(bytes) : bytes;
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const files = new Map();
  const text = (at, length) => decoder.decode(tar.subarray(at, at + length)).replace(/\0[^]*$/, "");
  let long = null;
  for (let at = 0; tar[at];) {
    const length = parseInt(text(at + 124, 12).trim() || "0", 8);
    const [type, body] = [text(at + 156, 1) || "0", tar.subarray(at + 512, at + 512 + length)];
    if (text(at + 257, 5) !== "ustar" || body.length !== length)
      throw new Error("expected a tar archive, got other bytes");
    const prefix = text(at + 345, 155);
    const name = long ?? (prefix ? `${prefix}/` : "") + text(at, 100);
    at += 512 + Math.ceil(length / 512) * 512;
    if (type === "x") long = /^\d+ path=(.*)$/m.exec(decoder.decode(body))?.[1] ?? null;
    else if (type === "L") long = decoder.decode(body).replace(/\0$/, "");
    else if (type !== "g") long = null;
    if (!"05xgL".includes(type)) throw new Error(`expected files and folders only, got ${name}`);
    if (type !== "0") continue;
    // Of two files of one name one would be checked, and one be shown.
    if (files.has(name)) throw new Error(`expected each file once, got ${name} twice`);
    files.set(name, body);
  }
  return atRoot(files);
}

/** What a gzip file holds. It may have several members; a browser's stream takes one at a time. */
async function unpacked(bytes) {
  const parts = [];
  for (let from = 0, end = 0, tries = 0; from < bytes.length;) {
    end = nextMember(bytes, end + 1);
    try {
      parts.push(await unpackedMember(bytes.subarray(from, end)));
      from = end;
    } catch (error) {
      // These bytes may be within a member, and end nothing.
      if (end === bytes.length || ++tries > 16 || error instanceof RangeError) throw error;
    }
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

function nextMember(bytes, from) {
  for (let at = bytes.indexOf(0x1f, from); at >= 0; at = bytes.indexOf(0x1f, at + 1))
    if (bytes[at + 1] === 0x8b && bytes[at + 2] === 8 && bytes[at + 3] === 0) return at;
  return bytes.length;
}

async function unpackedMember(bytes) {
  const parts = [];
  let size = 0;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  for (const reader = stream.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return new Blob(parts);
    size += value.length;
    if (size > MAX_UNPACKED)
      throw new RangeError(`expected at most ${MAX_UNPACKED} bytes when unpacked`);
    parts.push(value);
  }
}

/** The same files without the folder in which the bundle lies. */
function atRoot(files) {
  const ends = [...files.keys()].filter((path) => /(^|\/)manifest\.json$/.test(path));
  const root = ends.sort((a, b) => a.length - b.length)[0]?.slice(0, -"manifest.json".length) ?? "";
  // What lies elsewhere keeps its name: the inventory has not called for it.
  return new Map([...files].map(([path, bytes]) =>
    [path.startsWith(root) ? path.slice(root.length) : `../${path}`, bytes]));
}
