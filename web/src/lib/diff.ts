// The lines in which two texts differ (longest common subsequence).

export interface Row {
  kind: ' ' | '+' | '-';
  text: string;
}

/** Most cells of the table; larger texts are compared by what they begin and end with alone. */
const MOST = 4_000_000;

export function changes(before: string, after: string): Row[] {
  const a = before.split('\n');
  const b = after.split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const same = (lines: string[]) => lines.map((text): Row => ({ kind: ' ', text }));
  return [...same(a.slice(0, head)), ...inner(a.slice(head, a.length - tail), b.slice(head, b.length - tail)), ...same(a.slice(a.length - tail))];
}

function inner(a: string[], b: string[]): Row[] {
  const rows: Row[] = [];
  if (a.length * b.length > MOST) {
    return [...a.map((text): Row => ({ kind: '-', text })), ...b.map((text): Row => ({ kind: '+', text }))];
  }
  const width = b.length + 1;
  const table = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      table[at] = a[i] === b[j] ? table[at + width + 1]! + 1 : Math.max(table[at + width]!, table[at + 1]!);
    }
  }
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      rows.push({ kind: ' ', text: a[i]! });
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && table[(i + 1) * width + j]! >= table[i * width + j + 1]!)) {
      rows.push({ kind: '-', text: a[i]! });
      i += 1;
    } else {
      rows.push({ kind: '+', text: b[j]! });
      j += 1;
    }
  }
  return rows;
}

/** Changed rows with some around them; `undefined` is where others are left out. */
export function near(rows: Row[], around = 3): (Row | undefined)[] {
  const keep = new Set<number>();
  rows.forEach((r, i) => {
    if (r.kind !== ' ') for (let n = i - around; n <= i + around; n += 1) keep.add(n);
  });
  const out: (Row | undefined)[] = [];
  rows.forEach((r, i) => {
    if (keep.has(i)) out.push(r);
    else if (out.length && out.at(-1) !== undefined) out.push(undefined);
  });
  return out;
}
