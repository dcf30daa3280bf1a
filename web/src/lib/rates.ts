// Rates from counters that only grow, except when what they count begins anew.

export interface Sample {
  time: number;
  packets: number;
  bytes: number;
}

export interface Rate {
  packets: number;
  bytes: number;
}

export function rate(before: Sample | undefined, now: Sample): Rate {
  if (!before || now.time <= before.time || now.packets < before.packets || now.bytes < before.bytes) return { packets: 0, bytes: 0 };
  const seconds = (now.time - before.time) / 1000;
  return { packets: (now.packets - before.packets) / seconds, bytes: (now.bytes - before.bytes) / seconds };
}

/** The last rates of something, for a chart: as many as fit, so that a page that is open for days takes no more memory. */
export class Series {
  readonly times: number[] = [];
  readonly values: number[] = [];

  constructor(private readonly most = 120) {}

  add(time: number, value: number): void {
    this.times.push(time / 1000);
    this.values.push(value);
    if (this.times.length > this.most) {
      this.times.shift();
      this.values.shift();
    }
  }
}
