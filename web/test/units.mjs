// The parts of the dashboard that need no browser: node --test web/test/units.mjs
import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, sign, webcrypto } from 'node:crypto';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

globalThis.crypto ??= webcrypto;

/** The sources are TypeScript. */
async function load(name) {
  const at = fileURLToPath(new URL(`../src/lib/${name}.ts`, import.meta.url));
  const { outputFiles } = buildSync({ entryPoints: [at], bundle: true, write: false, format: 'esm', target: 'es2022' });
  return import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);
}

const text = await load('text');
const { parse } = await load('events');
const { changes, near } = await load('diff');
const { pcapng, read } = await load('pcapng');
const { witness } = await load('witness');
const { rate, Series } = await load('rates');
const { openssh, credential } = await load('credential');

test('texts keep their place: no character without a shape, no end out of sight', () => {
  assert.equal(text.plain('a\u202egpj.exe'), 'a⟨202E⟩gpj.exe');
  assert.equal(text.plain('one\ntwo\u0000'), 'one⟨000A⟩two⟨0000⟩');
  assert.equal(text.plain('née 日本 🙂'), 'née 日本 🙂');
  assert.equal(Array.from(text.plain('x'.repeat(10_000), 80)).length, 81);
  assert.match(text.plain(`${'x'.repeat(10_000)}end`, 80), /^x+…x+end$/);
});

test('numbers have three digits and a unit', () => {
  assert.deepEqual([0, 7, 999, 1000, 12_345, 999_600, 1.5e9].map(text.short), ['0', '7', '999', '1.00 k', '12.3 k', '1.00 M', '1.50 G']);
  assert.equal(text.bitrate(125), '1.00 kbit/s');
  assert.equal(text.packetRate(3), '3 p/s');
});

test('server-sent events are put together from lines', async () => {
  async function* lines() {
    yield* [': hello', '', 'id: 4', 'data: {"a":', 'data: 1}\r', '\r', 'data:x', ''];
  }
  const found = [];
  for await (const data of parse(lines())) found.push(data);
  assert.deepEqual(found, ['{"a":\n1}', 'x']);
});

test('a difference has the lines that changed, and few around them', () => {
  const before = Array.from({ length: 40 }, (_, i) => `line ${i}`);
  const after = before.with ? before.with(20, 'other') : [...before.slice(0, 20), 'other', ...before.slice(21)];
  const rows = changes(before.join('\n'), after.join('\n'));
  assert.deepEqual(rows.filter((r) => r.kind !== ' ').map((r) => r.kind + r.text), ['-line 20', '+other']);
  assert.equal(near(rows, 2).filter(Boolean).length, 6);
  assert.ok(changes('a\nb', 'a\nb').every((r) => r.kind === ' '));
});

test('a capture keeps nanoseconds, and its blocks have their lengths', () => {
  const packet = read('{"kind":"packet","time":1795862881939123457,"length":60,"bytes":"0102030405","point":"sap:a","direction":"from"}');
  assert.equal(packet.time, 1795862881939123457n);
  assert.equal(read('{"kind":"notice","what":"overrun","text":""}'), undefined);
  const bytes = Buffer.concat(pcapng([packet, packet]));
  const kinds = [];
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt32LE(at + 4);
    assert.equal(bytes.readUInt32LE(at + length - 4), length);
    kinds.push(bytes.readUInt32LE(at));
    at += length;
  }
  assert.deepEqual(kinds, [0x0a0d0d0a, 1, 6, 6]);
});

test('a witness is read from what refuses a graph', () => {
  const found = witness('violated: can a b tcp\n  no such packet arrives\n    IP 1.2.3.4 > 5.6.7.8: tcp\n    1 sap_a :: Counter\n    2 sf_fw/out :: IPFilter    rule 1; dropped: Denied');
  assert.equal(found.requirement, 'can a b tcp');
  assert.deepEqual(found.steps.map((s) => [s.element, s.kind, s.text]), [['sap_a', 'Counter', ''], ['sf_fw/out', 'IPFilter', 'rule 1; dropped: Denied']]);
  assert.equal(witness('no image of this name'), undefined);
});

test('rates take no harm from counters that begin anew, and a series ends', () => {
  const sample = (time, packets) => ({ time, packets, bytes: packets * 100 });
  assert.deepEqual(rate(sample(0, 10), sample(2000, 30)), { packets: 10, bytes: 1000 });
  assert.deepEqual(rate(sample(0, 10), sample(1000, 3)), { packets: 0, bytes: 0 });
  const series = new Series(120);
  for (let i = 0; i < 1_000_000; i += 1) series.add(i, i);
  assert.equal(series.values.length, 120);
});

/** An OpenSSH private key file. */
function keyFile({ cipher = 'none', kind = 'ssh-ed25519' } = {}) {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const seed = privateKey.export({ format: 'der', type: 'pkcs8' }).subarray(-32);
  const point = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
  const string = (b) => {
    const data = Buffer.from(b);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(data.length);
    return Buffer.concat([length, data]);
  };
  const blob = Buffer.concat([string(kind), string(point)]);
  const inner = Buffer.concat([Buffer.alloc(8, 7), string(kind), string(point), string(Buffer.concat([seed, point])), string('me')]);
  const body = Buffer.concat([Buffer.from('openssh-key-v1\0'), string(cipher), string('none'), string(''), Buffer.from([0, 0, 0, 1]), string(blob), string(inner)]);
  const file = `-----BEGIN OPENSSH PRIVATE KEY-----\n${body.toString('base64').replace(/.{70}/g, '$&\n')}\n-----END OPENSSH PRIVATE KEY-----\n`;
  return { file, privateKey, blob };
}

test('a key of OpenSSH signs each request by itself', async () => {
  const { file, privateKey, blob } = keyFile();
  assert.equal(Buffer.from(openssh(file).blob).compare(blob), 0);
  const who = await credential(file, 'node:7400');
  const header = await who.authorize('GET', '/v1/graphs?x=1');
  const [head, claims, signature] = header.replace('Bearer ', '').split('.');
  const said = JSON.parse(Buffer.from(claims, 'base64url').toString());
  assert.equal(said.req, 'GET /v1/graphs?x=1');
  assert.equal(said.aud, 'node:7400');
  assert.equal(said.sub, `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`);
  assert.equal(sign(null, Buffer.from(`${head}.${claims}`), privateKey).toString('base64url'), signature);
  assert.notEqual(header, await who.authorize('GET', '/v1/graphs?x=1'));
});

test('what is no key is refused with what would be right', async () => {
  await assert.rejects(credential('hello', 'node:7400'), /neither an admin token/);
  assert.throws(() => openssh(keyFile({ cipher: 'aes256-ctr' }).file), /passphrase/);
  assert.throws(() => openssh(keyFile({ kind: 'ssh-dss' }).file), /ssh-dss/);
  const { file } = keyFile();
  for (let length = 36; length < file.length - 40; length += 7) {
    assert.throws(() => openssh(file.slice(0, length) + '\n-----END OPENSSH PRIVATE KEY-----'), /cannot be read/);
  }
});
