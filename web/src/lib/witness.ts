// The packet that shows why a requirement does not hold, from the text that says so.

export interface Step {
  element: string;
  kind: string;
  text: string;
  node?: string;
}

export interface Witness {
  requirement: string;
  verdict: string;
  packet: string;
  steps: Step[];
}

export function witness(message: string): Witness | undefined {
  const rows = message.split('\n');
  const first = /^(violated|not known|inconclusive|unknown): (.*)$/.exec(rows[0] ?? '');
  if (!first) return undefined;
  const steps = rows.flatMap((row): Step[] => {
    const step = /^\s*\d+ (\S+) :: (\w+)(.*)$/.exec(row);
    return step ? [{ element: step[1]!, kind: step[2]!, text: step[3]!.trim() }] : [];
  });
  const packet = rows.find((row) => /^\s+(IP6?|ARP|eth) /.test(row))?.trim() ?? '';
  return { verdict: first[1]!, requirement: first[2]!, packet, steps };
}
