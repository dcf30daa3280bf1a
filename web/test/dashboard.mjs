// The dashboard in Debian's Chromium against a controller that runs: crates/weir/tests/system/dashboard.rs starts it and this.
// From the environment: WEIR_URL, WEIR_TOKEN (the admin's), WEIR_KEY (a file with an operator's key), WEIR_CAPTURE (the file to write),
// WEIR_SCREENSHOTS (a folder for pictures of the pages, if they are wanted).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { AxeBuilder } from '@axe-core/playwright';
import { chromium } from 'playwright-core';

const url = process.env.WEIR_URL;
const folder = process.env.WEIR_SCREENSHOTS;
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1360, height: 820 }, reducedMotion: 'reduce' });
context.setDefaultTimeout(30_000);
const problems = [];
const streams = [];
context.on('request', (r) => {
  if (!r.url().startsWith(url) && !r.url().startsWith('blob:')) problems.push(`a request to ${r.url()}`);
  if (r.url().endsWith('/v1/events')) streams.push(r.url());
});
function watch(page) {
  page.on('pageerror', (e) => problems.push(`an error of the page: ${e.message}`));
  page.on('console', (m) => {
    // Chromium itself writes of answers such as 401.
    if (m.type() === 'error' && !m.text().startsWith('Failed to load resource')) problems.push(m.text());
  });
}
const page = await context.newPage();
watch(page);

process.on('uncaughtException', async (e) => {
  console.error(e, problems, await page.evaluate(() => document.body.innerText.slice(0, 3000)).catch(() => ''));
  process.exit(1);
});

function step(text) {
  console.log(`- ${text}`);
}

/** Nothing serious for people with other eyes, in light and in dark. */
async function accessible(what) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const axe = new AxeBuilder({ page });
    // Of what axe looks at, colours alone differ between the two.
    const { violations } = await (colorScheme === 'light' ? axe : axe.withRules(['color-contrast'])).analyze();
    const serious = violations.filter((v) => ['serious', 'critical'].includes(v.impact));
    const found = serious.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.html} ${n.failureSummary}`).join('\n')}`);
    assert.deepEqual(found, [], `${what}, ${colorScheme}`);
    if (folder) await page.screenshot({ path: `${folder}/${what}-${colorScheme}.png` });
  }
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
}

const go = (path) => page.goto(`${url}/#/${path}`);
const heading = (name) => page.getByRole('heading', { name, exact: true }).waitFor();

step('who is not known gets no further');
await page.goto(`${url}/`);
await heading('Sign in to Weir');
await accessible('sign-in');
const secret = page.getByLabel('Private key or admin token');
await secret.fill('weir-admin-nonsense');
await page.getByRole('button', { name: 'Sign in' }).click();
await page.getByRole('alert').waitFor();
assert.equal(await page.evaluate(() => sessionStorage.length), 0);

step('a key signs in, by keyboard alone');
await secret.fill(readFileSync(process.env.WEIR_KEY, 'utf8'));
await secret.focus();
await page.keyboard.press('Tab');
await page.keyboard.press('Tab');
await page.keyboard.press('Enter');
await heading('Graphs');
assert.ok(!page.url().includes('KEY'), page.url());
await page.reload();
await heading('Graphs');

step('the list of graphs has live rates');
const row = page.getByRole('row').filter({ hasText: 'over three nodes' });
await row.getByText('bit/s').waitFor();
await accessible('graphs');

step('hostile names do no harm');
const hostile = page.getByRole('row').filter({ hasText: '<script>' });
assert.match(await hostile.innerText(), /⟨202E⟩/);
await hostile.getByRole('link').click();
await page.getByRole('group', { name: 'Picture of the graph' }).waitFor();
assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'a long name widens the page');

step('a graph is a picture with live rates');
await go('graphs/span');
await page.getByRole('button', { name: /^Function fw, inline, running/ }).waitFor();
const link = page.getByRole('button', { name: /^Link sap:a to sf:fw: [1-9]/ });
await link.waitFor();
await accessible('graph');
await link.focus();
await page.keyboard.press('Enter');
await page.getByRole('cell', { name: 'sf:fw:inside' }).first().waitFor();

step('the next packet is followed over three nodes');
await page.getByRole('button', { name: 'Trace the next packet' }).click();
await page.getByText('sf_fw/in_').first().waitFor();
await page.locator('.box.route').nth(2).waitFor();
assert.equal(await page.locator('.box.route').count(), 3);
await accessible('trace');

step('a capture becomes a file');
await page.getByRole('button', { name: 'Capture' }).click();
await page.getByText(/^[1-9]\d* packets from/).waitFor();
const downloading = page.waitForEvent('download');
await page.getByRole('button', { name: 'Save the file' }).click();
await (await downloading).saveAs(process.env.WEIR_CAPTURE);

step('a change that violates a requirement is refused with its witness on the graph');
await go('graphs/span/edit');
const editor = page.getByLabel('Document');
await page.waitForFunction(() => document.querySelector('textarea')?.value.includes('id: span'));
const text = await editor.inputValue();
await editor.fill(text.replace('name: firewall,', "name: firewall, params: {RULES: 'deny all'},"));
await page.getByRole('button', { name: 'Plan', exact: true }).click();
await page.getByText('violated', { exact: true }).waitFor();
await page.getByText('dropped: Denied').waitFor();
await page.locator('.box.route.bad').waitFor();
assert.equal(await page.locator('.box.route').count(), 2);
assert.ok(await page.getByRole('button', { name: 'Apply', exact: true }).isDisabled());
await accessible('refused');

step('another change is planned, applied, compared and taken back');
await editor.fill(text.replace('over three nodes', 'renamed over three nodes'));
await page.getByRole('button', { name: 'Plan', exact: true }).click();
await heading('Plan: span would be changed');
await accessible('plan');
await page.getByLabel('Why').fill('a better name');
await page.getByRole('button', { name: 'Apply', exact: true }).click();
await page.getByText('Applied.').waitFor();
await page.getByRole('link', { name: 'History' }).click();
await page.getByRole('cell', { name: 'a better name' }).waitFor();
await page.getByRole('button', { name: 'Compare revision 1' }).click();
await page.getByText('renamed over three nodes').first().waitFor();
await accessible('history');
await page.getByRole('button', { name: 'Roll back to revision 1' }).click();
await page.getByText('Revision 1 runs again, as revision 3.').waitFor();

step('events come by themselves');
await page.getByRole('link', { name: 'Events' }).first().click();
await page.getByRole('row').filter({ hasText: 'changed' }).nth(1).waitFor();
await accessible('events');

step('the pages of the domain');
for (const [path, name, what] of [
  ['map', 'Domain', 'Node n1, online, 2 graphs'],
  ['nodes', 'Nodes', '3 of 3 online'],
  ['nodes/n2', 'n2', 'Kinds of functions'],
  ['policies', 'Policies', 'noloops'],
  ['tenants', 'Tenants', 'acme'],
  ['audit', 'Audit log', 'change-graph'],
  ['graphs/span/requirements', 'span', 'can a b tcp'],
  ['apply', 'New graph', 'Plan'],
]) {
  await go(path);
  await heading(name);
  await (path === 'map' ? page.getByLabel(what) : page.getByText(what).first()).waitFor();
  await accessible(path.replaceAll('/', '-'));
}

step('many tabs hold one stream of events');
streams.length = 0;
const tabs = [];
for (let i = 0; i < 8; i += 1) {
  const tab = await context.newPage();
  watch(tab);
  await tab.goto(`${url}/`);
  await tab.getByLabel('Private key or admin token').fill(process.env.WEIR_TOKEN);
  await tab.getByRole('button', { name: 'Sign in' }).click();
  await tab.getByRole('heading', { name: 'Graphs', exact: true }).waitFor();
  tabs.push(tab);
}
for (const tab of tabs) await tab.getByRole('row').filter({ hasText: 'over three nodes' }).waitFor();
assert.equal(streams.length, 1, 'the admin has one stream, the operator the one from before');
await Promise.all(tabs.map((tab) => tab.close()));

step('two thousand graphs are no more rows than are in sight');
const many = Array.from({ length: 2000 }, (_, i) => {
  const state = i % 97 ? { state: 'running' } : { state: 'failed', reason: 'no interface' };
  return { id: `graph-${i}`, name: `number ${i}`, revision: 1, functions: i % 5, node: `n${i % 100}`, ...state };
});
await page.route('**/v1/graphs', (r) => r.fulfill({ json: many }));
await page.route('**/v1/graphs/graph-*/status', (r) => r.fulfill({ json: { links: [], drops: [], functions: [] } }));
await go('graphs');
await page.reload();
await page.getByText('2000 in all').waitFor();
assert.ok((await page.getByRole('row').count()) < 60);
await page.locator('[role=rowgroup][tabindex]').evaluate((e) => (e.scrollTop = e.scrollHeight));
await page.getByRole('link', { name: 'graph-1999' }).waitFor();
assert.ok((await page.getByRole('row').count()) < 60);
await page.getByLabel('Find graphs').fill('failed n97');
await page.getByRole('link', { name: 'graph-97', exact: true }).waitFor();
await accessible('many');

step('a million events take no memory');
const devtools = await context.newCDPSession(page);
const heap = async () => {
  await devtools.send('HeapProfiler.collectGarbage');
  return page.evaluate(() => performance.memory.usedJSHeapSize);
};
let next = 1_000_000;
let sent = 0;
const PIECE = 100_000;
await page.route('**/v1/events', async (r) => {
  if (sent >= 1_000_000) return;
  sent += PIECE;
  let body = '';
  for (let i = 0; i < PIECE; i += 1) {
    next += 1;
    body += `id: ${next}\nevent: notice\ndata: {"id":${next},"time":1795862881939,"kind":"notice","node":"n1","text":"event ${next}"}\n\n`;
  }
  await r.fulfill({ contentType: 'text/event-stream', body });
});
await page.route('**/v1/events/kept*', (r) => r.fulfill({ json: { events: [] } }));
await go('events');
await page.reload();
await page.getByRole('row').filter({ hasText: 'event 10' }).first().waitFor();
const before = await heap();
await page.getByText('event 2000000').waitFor({ timeout: 60_000 });
const after = await heap();
console.log(`  heap: ${(before / 1e6).toFixed(1)} MB after the first, ${(after / 1e6).toFixed(1)} MB after a million`);
assert.ok(after < before + 16e6, `${before} bytes grew to ${after}`);
assert.ok((await page.getByRole('row').count()) < 60);

assert.deepEqual(problems, []);
await browser.close();
console.log('all is as it should be');
