// A service graph as boxes and lines: what stands where, without how it looks.
import ELK, { type ElkNode } from 'elkjs/lib/elk-api.js';
import worker from 'elkjs/lib/elk-worker.min.js?url';
import type { Document } from './api';

export interface Box {
  id: string;
  kind: 'sap' | 'function';
  name: string;
  title: string;
  node?: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Line {
  id: string;
  a: string;
  b: string;
  /** Links as in a graph's status, from `a` to `b` and back. */
  there: string[];
  back: string[];
  rules: string[];
  points: { x: number; y: number }[];
}

export interface Picture {
  boxes: Box[];
  lines: Line[];
  width: number;
  height: number;
}

/** `service-access-point:x` and `sap:x` are the same place. */
export const place = (text: string) => text.replace(/^service-access-point:/, 'sap:').replace(/^network-function:/, 'sf:');

/** The box that a place belongs to: `sf:fw:inside` to `sf:fw`. */
export const boxOf = (at: string) => (at.startsWith('sf:') ? at.split(':').slice(0, 2).join(':') : at);

export const linkKey = (from: string, to: string) => `${place(from)} ${place(to)}`;

function outputs(actions: unknown): string[] {
  const list = Array.isArray(actions) ? actions : [actions];
  return list.flatMap((a) => {
    const to = (a as Record<string, unknown> | undefined)?.output_to_port;
    return typeof to === 'string' ? [place(to)] : Array.isArray(to) ? to.map((t) => place(String(t))) : [];
  });
}

/** Boxes and lines without positions. */
export function parts({ sffg }: Document): { boxes: Box[]; lines: Line[] } {
  const at = { x: 0, y: 0 };
  const saps = (sffg.saps ?? []).map((s): Box => {
    const details = s[s.type] as Record<string, unknown> | undefined;
    const title = String(details?.['if-name'] ?? s.type);
    return { id: `sap:${s.id}`, kind: 'sap', name: s.id, title, node: s.node, ...at, width: 120, height: 44 };
  });
  const functions = (sffg.SFs ?? []).map((f): Box => {
    const title = f.template ?? f.name ?? f.capability ?? '';
    return { id: `sf:${f.id}`, kind: 'function', name: f.id, title, node: f.node, ...at, width: 168, height: 78 };
  });
  const boxes = [...saps, ...functions];
  const known = new Set(boxes.map((b) => b.id));
  const lines = new Map<string, Line>();
  for (const rule of sffg.flowrules ?? []) {
    const from = place(String(rule.match.port_in ?? ''));
    for (const to of outputs(rule.actions)) {
      const [a, b] = [boxOf(from), boxOf(to)];
      if (!known.has(a) || !known.has(b)) continue;
      const turned = lines.get(`${to} ${from}`);
      const line = turned ?? lines.get(`${from} ${to}`) ?? { id: `${from} ${to}`, a, b, there: [], back: [], rules: [], points: [] };
      const list = turned && from !== to ? line.back : line.there;
      const key = linkKey(from, to);
      if (!list.includes(key)) list.push(key);
      line.rules.push(rule.id);
      lines.set(line.id, line);
    }
  }
  return { boxes, lines: [...lines.values()] };
}

let elk: InstanceType<typeof ELK> | undefined;

/** Finds positions, in a thread beside the page. */
export async function layout(document: Document): Promise<Picture> {
  const { boxes, lines } = parts(document);
  elk ??= new ELK({ workerUrl: worker });
  // Ports on the sides that they are drawn at: a line enters a box at the left and leaves it at the right.
  const graph: ElkNode = {
    id: 'root',
    layoutOptions: {
      'elk.algorithm': 'layered',
      'elk.direction': 'RIGHT',
      'elk.edgeRouting': 'ORTHOGONAL',
      'elk.spacing.nodeNode': '44',
      'elk.layered.spacing.nodeNodeBetweenLayers': '150',
      'elk.spacing.edgeNode': '32',
      'elk.spacing.edgeEdge': '32',
      'elk.padding': '[top=28,left=20,bottom=28,right=20]',
    },
    children: boxes.map(({ id, width, height }) => ({ id, width, height })),
    edges: lines.map((l) => ({ id: l.id, sources: [l.a], targets: [l.b] })),
  };
  const done = await elk.layout(graph);
  const positions = new Map((done.children ?? []).map((c) => [c.id, c]));
  const edges = new Map((done.edges ?? []).map((e) => [e.id, e]));
  for (const box of boxes) {
    box.x = positions.get(box.id)?.x ?? 0;
    box.y = positions.get(box.id)?.y ?? 0;
  }
  for (const line of lines) {
    const section = edges.get(line.id)?.sections?.[0];
    if (section) line.points = [section.startPoint, ...(section.bendPoints ?? []), section.endPoint];
  }
  return { boxes, lines, width: done.width ?? 0, height: done.height ?? 0 };
}

/** Which box an element of the configuration belongs to, as traces and witnesses name them. */
export function boxOfElement(element: string, boxes: Box[]): Box | undefined {
  const clean = (text: string) => text.replace(/[^A-Za-z0-9_]/g, '_');
  const first = element.split('/')[0] ?? '';
  return boxes.find((b) => {
    const name = clean(b.name);
    return b.kind === 'function' ? first === `sf_${name}` : [`sap_${name}`, `sap_${name}_in`, `sap_${name}_out`].includes(first);
  });
}

/** A path along these points with round corners. */
export function path(points: { x: number; y: number }[], radius = 8): string {
  return points
    .map((p, i) => {
      const [before, after] = [points[i - 1], points[i + 1]];
      if (!before) return `M${p.x} ${p.y}`;
      if (!after) return `L${p.x} ${p.y}`;
      const toward = (q: { x: number; y: number }) => {
        const length = Math.hypot(q.x - p.x, q.y - p.y) || 1;
        const r = Math.min(radius, length / 2);
        return `${p.x + ((q.x - p.x) / length) * r} ${p.y + ((q.y - p.y) / length) * r}`;
      };
      return `L${toward(before)} Q${p.x} ${p.y} ${toward(after)}`;
    })
    .join(' ');
}

/** The middle of the longest piece: where a line's label stands. */
export function middle(points: { x: number; y: number }[]): { x: number; y: number } {
  let best = { x: 0, y: 0, length: -1 };
  for (let i = 1; i < points.length; i += 1) {
    const [p, q] = [points[i - 1]!, points[i]!];
    const length = Math.abs(p.x - q.x) * 1.01 + Math.abs(p.y - q.y) * 0.2;
    if (length > best.length) best = { x: (p.x + q.x) / 2, y: (p.y + q.y) / 2, length };
  }
  return best;
}
