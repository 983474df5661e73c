/** Days of the calendar in the zone of this machine, which is also the one that the daemon is told. */

/** `2026-03-10`. */
export function plainDate(when: Date): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${String(when.getFullYear()).padStart(4, "0")}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
}

/** The date `days` before, at midnight; days that are 23 or 25 hours long count as one. */
export function daysBefore(when: Date, days: number): Date {
  return new Date(when.getFullYear(), when.getMonth(), when.getDate() - days);
}
