// Answers a list of questions to verify.js, in one process: node ask_verify.mjs VERIFY_JS < questions
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const questions = JSON.parse(readFileSync(0));
if (questions.some((one) => one.without === "ed25519")) {
  const { importKey } = crypto.subtle;
  crypto.subtle.importKey = (form, key, algorithm, ...rest) => algorithm.name === "Ed25519"
    ? Promise.reject(new DOMException("no such algorithm", "NotSupportedError"))
    : importKey.call(crypto.subtle, form, key, algorithm, ...rest);
}
const made = await import(pathToFileURL(process.argv[2]).href);
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
const folders = new Map();
const filesOf = async (folder) => {
  if (!folders.has(folder)) folders.set(folder, await made.readFolder(folder));
  return folders.get(folder);
};
const KINDS = {
  async bundle({ folder, changes = {}, trust }) {
    const files = new Map(await filesOf(folder));
    for (const [path, raw] of Object.entries(changes))
      if (raw === null) files.delete(path);
      else files.set(path, bytes(raw));
    return made.verify(files, { trust: trust && bytes(trust) });
  },
  form: ({ raw }) => made.canonical(made.parseJson(bytes(raw))),
  signature: ({ der }) => Buffer.from(made.rawSignature(bytes(der))).toString("hex"),
  wilson: ({ right, number }) => made.wilson(right, number),
};
const answers = [];
for (const question of questions) {
  try {
    answers.push({ value: await KINDS[question.kind](question) });
  } catch (error) {
    answers.push({ error: error.message });
  }
}
process.stdout.write(JSON.stringify(answers));
