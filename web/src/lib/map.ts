// Where nodes stand on the map: on rings, each as full as circles of their size fit.

const SPACE = 96;

export interface Ring {
  size: number;
  places: Map<string, { x: number; y: number }>;
}

export function ring(names: string[]): Ring {
  const rings: string[][] = [];
  let rest = [...names];
  // The innermost ring has up to eight; each further one as many more as its girth allows.
  for (let radius = Math.max(118, Math.min(names.length, 8) * 16); rest.length; radius += SPACE * 1.1) {
    const most = Math.floor((2 * Math.PI * radius) / SPACE);
    rings.push(rest.slice(0, most));
    rest = rest.slice(most);
  }
  const inner = Math.max(118, Math.min(names.length, 8) * 16);
  const outer = inner + Math.max(0, rings.length - 1) * SPACE * 1.1;
  const centre = outer + 52;
  const places = new Map<string, { x: number; y: number }>();
  rings.forEach((list, r) => {
    const radius = inner + r * SPACE * 1.1;
    list.forEach((name, i) => {
      const angle = (i / list.length) * 2 * Math.PI - Math.PI / 2;
      const one = names.length === 1;
      places.set(name, one ? { x: centre, y: centre } : { x: centre + radius * Math.cos(angle), y: centre + radius * Math.sin(angle) });
    });
  });
  return { size: 2 * centre, places };
}
