// Packets as a pcapng file (draft-ietf-opsawg-pcapng), for Wireshark.

export interface Captured {
  kind: 'packet';
  time: number;
  length: number;
  bytes: string;
  point: string;
  direction?: 'from' | 'to';
}

const pad = (n: number) => (n + 3) & ~3;

function option(code: number, value: Uint8Array): Uint8Array {
  const out = new Uint8Array(4 + pad(value.length));
  const view = new DataView(out.buffer);
  view.setUint16(0, code, true);
  view.setUint16(2, value.length, true);
  out.set(value, 4);
  return out;
}

function block(kind: number, ...parts: Uint8Array[]): Uint8Array {
  const length = 12 + parts.reduce((sum, p) => sum + p.length, 0);
  const out = new Uint8Array(length);
  const view = new DataView(out.buffer);
  view.setUint32(0, kind, true);
  view.setUint32(4, length, true);
  let at = 8;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  view.setUint32(at, length, true);
  return out;
}

const END = new Uint8Array(4);

/** One interface a point, named by it; times in nanoseconds. */
export function pcapng(packets: { time: bigint; packet: Captured }[]): Uint8Array<ArrayBuffer>[] {
  const section = new Uint8Array(16);
  const head = new DataView(section.buffer);
  head.setUint32(0, 0x1a2b3c4d, true);
  head.setUint16(4, 1, true);
  head.setBigInt64(8, -1n, true);
  const blocks = [block(0x0a0d0d0a, section)];
  const interfaces = new Map<string, number>();
  for (const { time, packet } of packets) {
    let number = interfaces.get(packet.point);
    if (number === undefined) {
      number = interfaces.size;
      interfaces.set(packet.point, number);
      const fixed = new Uint8Array(8);
      new DataView(fixed.buffer).setUint16(0, 1, true);
      const name = new TextEncoder().encode(packet.point);
      blocks.push(block(1, fixed, option(2, name), option(9, Uint8Array.of(9)), END));
    }
    const bytes = Uint8Array.from(packet.bytes.match(/../g) ?? [], (b) => parseInt(b, 16));
    const fixed = new Uint8Array(20 + pad(bytes.length));
    const view = new DataView(fixed.buffer);
    view.setUint32(0, number, true);
    view.setUint32(4, Number(time >> 32n), true);
    view.setUint32(8, Number(time & 0xffffffffn), true);
    view.setUint32(12, bytes.length, true);
    view.setUint32(16, packet.length, true);
    fixed.set(bytes, 20);
    const way = packet.direction === 'from' ? 1 : packet.direction === 'to' ? 2 : 0;
    const flags = new Uint8Array(4);
    flags[0] = way;
    blocks.push(way ? block(6, fixed, option(2, flags), END) : block(6, fixed));
  }
  return blocks as Uint8Array<ArrayBuffer>[];
}

/** A line of a capture. Times are 64 bits wide, which numbers of JSON are not in JavaScript. */
export function read(line: string): { time: bigint; packet: Captured } | undefined {
  const value = JSON.parse(line) as Captured | { kind: string };
  if (value.kind !== 'packet') return undefined;
  const time = /"time":\s*(\d+)/.exec(line)?.[1] ?? '0';
  return { time: BigInt(time), packet: value as Captured };
}
