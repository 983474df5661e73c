/** Comparing versions as the daemon does: by their numbers; what follows those does not count. */

/** Whether `version` is a later release than `other`. */
export function isNewer(version: string, other: string): boolean {
  const [one, two] = [numbers(version), numbers(other)];
  for (let at = 0; at < Math.max(one.length, two.length); at += 1) {
    const difference = (one[at] ?? 0) - (two[at] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
}

function numbers(version: string): number[] {
  return (/^\d+(?:\.\d+)*/.exec(version)?.[0] ?? "").split(".").map(Number);
}
