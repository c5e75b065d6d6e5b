// NODE_PATH="$(npm root -g)/npm/node_modules" node verify-with-node.js BUNDLE trust.json [policy]
//
// Signature, both log entries, their order and the witnesses of a certificate, by @sigstore/bundle
// and @sigstore/verify, which come with npm, and by Node's own crypto: no line of Echelon's.
// It ends with exit code 1 at the first thing that is wrong.
'use strict';
const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { bundleFromJSON } = require('@sigstore/bundle');
const { Verifier, toSignedEntity, toTrustMaterial } = require('@sigstore/verify');
const { verifyTLogInclusion } = require('@sigstore/verify/dist/tlog');

const [bundle, trustFile, policyFile] = process.argv.slice(2);
const read = (name) => fs.readFileSync(path.join(bundle, name));
const sha256 = (data) => crypto.createHash('sha256').update(data).digest();
// As RFC 8785 has it, for flat objects of texts and integers: Node compares names by UTF-16 units, too.
const canonical = (object) => JSON.stringify(Object.fromEntries(Object.entries(object).sort()));
const trust = JSON.parse(fs.readFileSync(trustFile));

// 1 The signature: one of the issuer's keys signed the statement, which has certificate and files.
// Their bytes are compared: of a member that is there twice, each reader takes another.
const nothing = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] };
const keys = Object.fromEntries(
  trust.keys.map((key) => [key.kid, { rawBytes: Buffer.from(key.public_key, 'base64') }]),
);
const thresholds = { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 };
const signed = bundleFromJSON(JSON.parse(read('proofs/certificate.sigstore.json')));
new Verifier(toTrustMaterial(nothing, keys), thresholds).verify(toSignedEntity(signed));
const kid = signed.verificationMaterial.content.publicKey.hint;
const payload = signed.content.dsseEnvelope.payload;
const statement = JSON.parse(payload);
assert.equal(statement.predicateType, 'urn:echelon:attestation:calibration-certificate:v1');
assert.equal(statement.subject.length, 1);
assert.equal(statement.subject[0].digest.sha256, sha256(read('SHA256SUMS')).toString('hex'));
const { certificate } = statement.predicate;
const [text] = read('certificate.json').toString('latin1').split(/\n$/);
const head = '{"_type":"https://in-toto.io/Statement/v1","predicate":{"certificate":';
assert(payload.toString('latin1').startsWith(`${head}${text},"commitment_log":`), 'another certificate');
for (const line of read('SHA256SUMS').toString().trimEnd().split('\n')) {
  const [, digest, name] = /^([0-9a-f]{64})  (.+)$/.exec(line);
  assert.equal(sha256(read(name)).toString('hex'), digest, `other bytes of ${name}`);
}
console.log(`signature           ${kid}`);

// 2 Both entries are in the trees of checkpoints that the issuer's log has signed.
const ed25519 = (raw) => Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), raw]);
function verifierKey(text) {
  // Base64 may have plus signs, too.
  const [, name, id, material] = /^([^+]+)\+([^+]+)\+(.+)$/.exec(text);
  const typed = Buffer.from(material, 'base64');
  const keyId = sha256(Buffer.concat([Buffer.from(`${name}\n`), typed])).subarray(0, 4);
  assert.equal(keyId.toString('hex'), id);
  const options = { key: ed25519(typed.subarray(1)), format: 'der', type: 'spki' };
  return { name, keyId, type: typed[0], public: crypto.createPublicKey(options) };
}
const log = verifierKey(trust.log.vkey);
const authorities = [{ baseURL: log.name, logID: log.keyId, publicKey: log.public }];

function lookUp(name, entries) {
  const [head, note] = read(`proofs/${name}`).toString().split(/\n\n(.*)/s);
  const [version, ...lines] = head.split('\n').filter((line) => !line.startsWith('extra '));
  assert.equal(version, 'c2sp.org/tlog-proof@v1');
  const index = Number(/^index (\d+)$/.exec(lines.shift())[1]);
  const inclusionProof = {
    logIndex: String(index),
    hashes: lines.map((line) => Buffer.from(line, 'base64')),
    checkpoint: { envelope: note },
  };
  const holds = (entry) => {
    const canonicalizedBody = Buffer.from(canonical(entry));
    verifyTLogInclusion({ canonicalizedBody, inclusionProof }, authorities);
  };
  const [last, ...others] = entries.toReversed();
  const isAnother = others.some((entry) => {
    try {
      holds(entry);
      return true;
    } catch {
      return false;
    }
  });
  if (!isAnother) holds(last);
  const [text, signatures] = note.split(/(?<=\n)\n(.*)/s);
  const [origin, size] = text.split('\n');
  assert.equal(origin, log.name);
  return { index, size: Number(size), text, signatures };
}

const { theatre_id, construct_id, construct_version, template_id, commitment_hash, coin_sha256 } =
  certificate;
// As many days after the commitment as the template allows, 30 where it says nothing.
const { schema_version, execution_policy } = JSON.parse(read('template.json'));
const days = (schema_version === '2.2.0' && execution_policy?.close_within_days) || 30;
const [day, time] = certificate.theatre_committed_at.split('T');
const lastDay = new Date(Date.parse(day) + days * 24 * 60 * 60 * 1000).toISOString().split('T')[0];
const commitment = {
  type: 'commitment/v1',
  ...{ theatre_id, construct_id, construct_version, template_id, commitment_hash, coin_sha256 },
  close_by: `${lastDay}T${time}`,
};
// A template that is not public is logged under its coin, which opens it here.
const coin = Buffer.from(read('coin.txt').toString().trim(), 'hex');
const salted = crypto.createHmac('sha256', coin).update(commitment_hash).digest('hex');
const committed = lookUp('commitment.tlog-proof', [
  commitment,
  { ...commitment, commitment_hash: salted, salted: true },
]);
// What the run drew with is made of the log's checkpoint, which no one had before it was signed.
const trail = read('audit_trail.jsonl').toString().trimEnd().split('\n').map((line) => JSON.parse(line));
const { detail } = trail.find((event) => event.event_type === 'activated');
assert.equal(detail.run_nonce, sha256(committed.text).toString('hex'));
console.log(`commitment-logged   entry ${committed.index} of ${log.name}`);
const closed = lookUp('certificate.tlog-proof', [
  {
    type: 'certificate/v1',
    theatre_id,
    commitment_index: committed.index,
    statement_sha256: sha256(payload).toString('hex'),
    tier: certificate.verification_tier,
    expires_at: certificate.expires_at,
  },
]);
console.log(`certificate-logged  entry ${closed.index} of ${log.name}`);

// 3 The commitment was public before the certificate was signed: the statement names its checkpoint.
assert(committed.index < committed.size);
assert(committed.size <= closed.index);
assert(closed.index < closed.size);
assert.deepEqual(statement.predicate.commitment_log, {
  origin: log.name,
  index: committed.index,
  checkpoint: committed.text,
});
console.log(`order               ${committed.index} before ${closed.index}`);

// 4 Enough witnesses of the policy cosigned both; the earliest of them dates the certificate.
const known = new Map([['none', () => true]]);
const times = [];
function cosigned(witness, { text, signatures }) {
  for (const [, name, blob] of signatures.matchAll(/^\u2014 (\S+) (\S+)$/gm)) {
    const bytes = Buffer.from(blob, 'base64');
    if (name === witness.name && bytes.subarray(0, 4).equals(witness.keyId)) {
      const at = bytes.readBigUInt64BE(4);
      const message = Buffer.from(`cosignature/v1\ntime ${at}\n${text}`);
      assert(crypto.verify(null, message, witness.public, bytes.subarray(12)));
      return Number(at) * 1000;
    }
  }
  return null;
}
let quorum;
const policy = policyFile ? fs.readFileSync(policyFile, 'utf8') : trust.policy;
for (const [word, name, ...rest] of policy.split('\n').map((line) => line.trim().split(/[ \t]+/))) {
  if (word === 'witness') {
    const witness = verifierKey(rest[0]);
    const seen = [cosigned(witness, committed), cosigned(witness, closed)];
    known.set(name, () => !seen.includes(null));
    if (!seen.includes(null)) times.push(seen[1]);
  } else if (word === 'group') {
    const [threshold, ...members] = rest;
    const least = { any: 1, all: members.length }[threshold] ?? Number(threshold);
    known.set(name, () => members.filter((member) => known.get(member)()).length >= least);
  } else if (word === 'quorum') {
    quorum = name;
  }
}
assert(known.get(quorum)?.(), `expected the witnesses of ${quorum}, got ${times.length} in all`);
console.log(`witnesses           ${times.length} cosigned both, asked for: ${quorum}`);

// 5 The key counted then. Without a witness that rests on the issuer's own word.
const key = trust.keys.find((one) => one.kid === kid);
const at = times.length ? Math.min(...times) : Date.parse(certificate.issued_at);
assert(Date.parse(key.valid_from) <= at);
assert(key.valid_until === null || at <= Date.parse(key.valid_until));
assert(key.revoked_index === null || closed.index < key.revoked_index);
console.log(`signer-trusted      ${trust.issuer}, at ${new Date(at).toISOString()}`);
