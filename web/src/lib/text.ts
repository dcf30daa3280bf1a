// How texts that others wrote are shown. Svelte escapes markup; what is left are characters that have no shape, or turn the
// direction of what follows, and texts without end.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu;

/** A text of one line: characters without a shape are shown by their numbers, and the middle of a long one is left out. */
export function plain(text: string, max = 120): string {
  const characters = Array.from(text.length > 40 * max ? text.slice(0, 20 * max) + text.slice(-20 * max) : text);
  const cut = Math.ceil((max * 2) / 3);
  const short =
    characters.length > max
      ? characters.slice(0, cut).join('') + '…' + characters.slice(characters.length - (max - cut)).join('')
      : characters.join('');
  return short.replace(HIDDEN, (c) => `⟨${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`);
}

/** A text of several lines, whole. */
export function lines(text: string): string {
  return text
    .split('\n')
    .map((line) => plain(line.replaceAll('\t', '    '), 2000))
    .join('\n');
}

const UNITS = ['', ' k', ' M', ' G', ' T'];

/** A number in three digits with its unit: `1.23 M`. */
export function short(value: number): string {
  let unit = 0;
  let v = Math.abs(value);
  while (v >= 999.5 && unit < UNITS.length - 1) {
    v /= 1000;
    unit += 1;
  }
  const digits = v >= 99.5 || (unit === 0 && Number.isInteger(v)) ? 0 : v >= 9.95 ? 1 : 2;
  return `${value < 0 ? '−' : ''}${v.toFixed(digits)}${UNITS[unit]}`;
}

export function bitrate(bytesPerSecond: number): string {
  const text = short(bytesPerSecond * 8);
  return /[a-z]$/i.test(text) ? `${text}bit/s` : `${text} bit/s`;
}

export function packetRate(perSecond: number): string {
  return `${short(perSecond)}${perSecond >= 999.5 ? '' : ' '}p/s`;
}

export function memory(bytes: number): string {
  return bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.round(bytes / 2 ** 20)} MiB`;
}

const two = (n: number) => String(n).padStart(2, '0');

/** A time of day; with the date if it is another day. */
export function time(ms: number, now = Date.now()): string {
  const t = new Date(ms);
  const clock = `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
  const today = new Date(now).toDateString() === t.toDateString();
  return today ? clock : `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${clock}`;
}

export function ago(ms: number, now = Date.now()): string {
  const s = Math.max(0, Math.round((now - ms) / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}
