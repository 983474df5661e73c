/** Numbers, times and foreign text as people read them. Pure; whoever calls gives the clock. */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const LANGUAGE = "en-US"; // all texts of the extension are English: the numbers in them follow

/** `4,310`. */
export function number(value: number): string {
  return value.toLocaleString(LANGUAGE);
}

/** As in `number`, and from ten thousand on short: `12.3 k`, `1.2 M`. */
export function shortNumber(value: number): string {
  if (value < 10_000) return number(value);
  const [scaled, unit] = value < 999_500 ? [value / 1000, "k"] : [value / 1_000_000, "M"];
  return `${scaled < 100 ? scaled.toFixed(1) : scaled.toFixed(0)} ${unit}`;
}

/** `1 file`, `12 files`; `several` where the plural is another than with an s. */
export function count(value: number, one: string, several = `${one}s`): string {
  return `${number(value)} ${value === 1 ? one : several}`;
}

/** A size in bytes: `14.5 MB`. */
export function size(bytes: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let [scaled, step] = [bytes, 0];
  while (scaled >= 999.5 && step < units.length - 1) [scaled, step] = [scaled / 1000, step + 1];
  return `${step === 0 || scaled >= 100 ? scaled.toFixed(0) : scaled.toFixed(1)} ${units[step] ?? ""}`;
}

/** A duration in seconds, to its two largest units: `3 h 20 min`. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const [minutes, hours, days] = [Math.floor(whole / 60), Math.floor(whole / 3600), Math.floor(whole / 86_400)];
  if (days) return `${days} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  return minutes ? `${minutes} min` : `${whole} s`;
}

/** How long ago: `now`, `5 min ago`, `3 h ago`, `yesterday`, `4 d ago`, then the date. Empty where the time is unknown. */
export function ago(time: string | null, now: Date): string {
  const then = read(time);
  if (!then) return "";
  const passedMs = now.getTime() - then.getTime();
  const days = daysBetween(then, now);
  if (days < 0) return shortDate(then, now); // a clock that was wrong, here or where it was written
  if (passedMs < MINUTE_MS) return "now";
  if (passedMs < HOUR_MS) return `${Math.floor(passedMs / MINUTE_MS)} min ago`;
  if (days === 0) return `${Math.floor(passedMs / HOUR_MS)} h ago`;
  if (days === 1) return "yesterday";
  return days < 7 ? `${days} d ago` : shortDate(then, now);
}

/** A whole day as a heading: `Today`, `Yesterday`, `Monday, March 2`; with its year where that is another. */
export function dayHeading(time: string | null, now: Date): string {
  const then = read(time);
  if (!then) return "Without a date";
  const days = daysBetween(then, now);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  return then.toLocaleDateString(LANGUAGE, { weekday: "long", month: "long", day: "numeric", ...yearOf(then, now) });
}

/** Date and time of day, in the zone of this machine: `Mar 2, 2026, 14:05`. Empty where the time is unknown. */
export function dateAndTime(time: string | null): string {
  const then = read(time);
  if (!then) return "";
  return then.toLocaleString(LANGUAGE, {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });
}

/** The time of day, `14:05`. Empty where the time is unknown. */
export function timeOfDay(time: string | null): string {
  return read(time)?.toLocaleTimeString(LANGUAGE, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }) ?? "";
}

/** ISO 8601 with the machine's offset from UTC, as the daemon wants the caller's clock: `2026-03-10T09:00:00+01:00`. */
export function withOffset(when: Date): string {
  const minutes = -when.getTimezoneOffset();
  const local = new Date(when.getTime() + minutes * MINUTE_MS).toISOString().slice(0, 19);
  const pad = (value: number): string => String(value).padStart(2, "0");
  const away = Math.abs(minutes);
  return `${local}${minutes < 0 ? "-" : "+"}${pad(Math.floor(away / 60))}:${pad(away % 60)}`;
}

/** What is looked at of a line that is shown shortened: transcripts have lines of megabytes. */
const LINE_CHARS_MAX = 2_000;

/** The first line with words, without the back-ticks of code, cut after `most` characters. */
export function firstLine(text: string, most = 120): string {
  const [line = ""] = /\S[^\r\n]*/.exec(text) ?? [];
  return cut(visible(beginning(line, LINE_CHARS_MAX)).replace(/`+/g, "").replace(/\s+/g, " ").trim(), most);
}

/** At most `most` characters; what is cut ends in an ellipsis, and never inside a surrogate pair. */
export function cut(text: string, most: number): string {
  return text.length <= most ? text : `${beginning(text, most - 1).trimEnd()}…`;
}

/** The first `most` characters, or one less where that would cut a surrogate pair: half of one is no text. */
export function beginning(text: string, most: number): string {
  return text.length <= most ? text : text.slice(0, most).replace(/[\uD800-\uDBFF]$/, "");
}

/** Without control characters and a terminal's colours, and without marks that turn the direction of all that follows them. */
export function visible(text: string): string {
  return text.replace(/\p{Cc}\[[\d;]*m/gu, "").replace(/[\p{Cc}\u2028\u2029]/gu, " ").replace(/[\u202a-\u202e\u2066-\u2069]/g, "");
}

/**
 * Foreign text as Markdown that shows it as it is: no link, image, heading, HTML or icon comes out of it.
 *
 * Addresses that Markdown links by itself are broken by an invisible character, so that a preview loads and links nothing.
 */
export function plainMarkdown(text: string): string {
  return text
    .replace(/[^\n\r\t]+/g, visible)
    .replace(/[\\`*_{}[\]()#+\-.!|<>~&$:@^=]/g, (mark) => (mark === "<" ? "&lt;" : mark === "&" ? "&amp;" : `\\${mark}`))
    .replace(/^[ \t]+/gm, (space) => "&nbsp;".repeat(space.length))
    .replace(/\r?\n/g, "  \n")
    .replace(/(https?|ftp|mailto|www)(?=\\[:.])/gi, "$1\u200b")
    .replace(/\\\$(?=\\\()/g, "\\$\u200b"); // icons are looked for in what Markdown makes of it, without the backslashes
}

/** Text that a label or a detail of the editor shows: `$(name)` would become an icon there. */
export function plainLabel(text: string): string {
  return visible(text).replace(/\$\(/g, "$\u200b(");
}

/** Text that a message of the editor shows: `[label](command:name)` would become a link there that runs the command. */
export function plainMessage(text: string): string {
  return visible(text).replace(/\]\(/g, "]\u200b(");
}

/** The last name of a path of any platform. */
export function lastName(path: string): string {
  const names = path.split(/[\\/]/).filter((one) => one !== "");
  return names.at(-1) ?? path;
}

function read(time: string | null): Date | undefined {
  const then = time === null ? undefined : new Date(time);
  return then && !Number.isNaN(then.getTime()) ? then : undefined;
}

function daysBetween(earlier: Date, later: Date): number {
  const midnight = (day: Date): number => new Date(day.getFullYear(), day.getMonth(), day.getDate()).getTime();
  return Math.round((midnight(later) - midnight(earlier)) / DAY_MS); // rounded: a day of 23 or 25 hours is one, too
}

function shortDate(then: Date, now: Date): string {
  return then.toLocaleDateString(LANGUAGE, { month: "short", day: "numeric", ...yearOf(then, now) });
}

function yearOf(then: Date, now: Date): { year?: "numeric" } {
  return then.getFullYear() === now.getFullYear() ? {} : { year: "numeric" };
}
