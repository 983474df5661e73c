import assert from "node:assert/strict";
import { test } from "node:test";

import { ago, beginning, count, cut, dayHeading, duration, firstLine, lastName, plainLabel, plainMarkdown, plainMessage, shortNumber, size, withOffset } from "../../src/core/wording";

const NOW = new Date(2026, 2, 10, 9, 0, 0);
const before = (days: number, hours = 0, minutes = 0): string => new Date(2026, 2, 10 - days, 9 - hours, -minutes).toISOString();

test("numbers get short from ten thousand on", () => {
  assert.deepEqual([4_310, 9_999, 10_000, 12_345, 123_456, 999_499, 999_500, 2_500_000].map(shortNumber), ["4,310", "9,999", "10.0 k", "12.3 k", "123 k", "999 k", "1.0 M", "2.5 M"]);
});

test("what is counted is named in the right number", () => {
  assert.deepEqual([count(0, "file"), count(1, "file"), count(1_200, "file"), count(2, "directory", "directories")], ["0 files", "1 file", "1,200 files", "2 directories"]);
});

test("sizes and durations keep what matters", () => {
  assert.deepEqual([0, 999, 1_000, 14_490_272, 999_600_000].map(size), ["0 bytes", "999 bytes", "1.0 kB", "14.5 MB", "1.0 GB"]);
  assert.deepEqual([0.4, 59, 61, 3_700, 90_000].map(duration), ["0 s", "59 s", "1 min", "1 h 1 min", "1 d 1 h"]);
});

test("times are told relative to the day of the person", () => {
  assert.deepEqual(
    [before(0), before(0, 0, 5), before(0, 3), before(1, -10), before(4), before(30), before(400), null, "nonsense"].map((one) => ago(one, NOW)),
    ["now", "5 min ago", "3 h ago", "yesterday", "4 d ago", "Feb 8", "Feb 3, 2025", "", ""],
  );
  assert.equal(ago(before(-3), NOW), "Mar 13", "a time to come is a date");
  assert.deepEqual([before(0), before(1), before(8), before(400), null].map((one) => dayHeading(one, NOW)), [
    "Today",
    "Yesterday",
    "Monday, March 2",
    "Monday, February 3, 2025",
    "Without a date",
  ]);
});

test("the caller's clock names the same moment, with its own offset", () => {
  const told = withOffset(NOW);
  assert.match(told, /^2026-03-10T09:00:00[+-]\d\d:\d\d$/);
  assert.equal(new Date(told).getTime(), NOW.getTime());
});

test("a first line has words, on one line, and is cut between characters", () => {
  assert.equal(firstLine("\n\n  a\t b \r\nc"), "a b");
  assert.equal(firstLine("  \n "), "");
  assert.equal(firstLine("Why does `sqlite3` wait?"), "Why does sqlite3 wait?");
  assert.equal(cut("abcdef", 4), "abc…");
  assert.equal(cut("ab😀cd", 4), "ab…");
});

test("a transcript's text makes no link, image, HTML or icon", () => {
  assert.equal(plainMarkdown("[run](command:x) ![i](a)"), "\\[run\\]\\(command\\:x\\) \\!\\[i\\]\\(a\\)");
  assert.equal(plainMarkdown("<b>&amp;"), "&lt;b\\>&amp;amp;");
  assert.equal(plainMarkdown("$(trash)"), "\\$\u200b\\(trash\\)"); // the editor looks for icons in what Markdown made of it
  assert.ok(!/https?\\?:/.test(plainMarkdown("see https://example.com")), "no address is left to be linked");
  assert.equal(plainMarkdown("a\n  b"), "a  \n&nbsp;&nbsp;b");
  assert.ok(!plainLabel("$(trash)").includes("$("));
});

test("what cannot be seen is left out of labels, messages and tooltips: control characters, and marks that turn what follows around", () => {
  const text = "a\u0007b\u001b[31mc \u202egpj.exe \u2066d";
  for (const shown of [plainLabel(text), plainMessage(text), plainMarkdown(text), firstLine(text)]) assert.doesNotMatch(shown, /[\p{Cc}\u202a-\u202e\u2066-\u2069]/u);
  assert.equal(plainLabel("\u001b[1;31mred\u001b[0m alert"), "red alert");
  assert.equal(plainLabel("שלום 👩‍🚀 \u200fא"), "שלום 👩‍🚀 \u200fא", "letters of any direction and joined emoji stay");
  assert.equal(plainMarkdown("a\n\tb"), "a  \n&nbsp;b", "lines and tabs stay");
});

test("a message of the editor makes no link of a transcript's text", () => {
  assert.equal(plainMessage("see [this](command:workbench.action.quit)"), "see [this]\u200b(command:workbench.action.quit)");
});

test("what is cut off a text never ends in half a character", () => {
  assert.equal(beginning("ab😀", 3), "ab");
  assert.equal(beginning("ab😀", 4), "ab😀");
});

test("of a line of megabytes only its beginning is looked at", () => {
  const line = `${"[".repeat(3_000_000)} end`;
  assert.equal(firstLine(line, 10), "[[[[[[[[[…");
  assert.equal(firstLine(`\n\r\n \u2028 x\ry`), "x");
});

test("the last name of a path is found on every platform", () => {
  assert.deepEqual(["/home/kim/atlas", "C:\\work\\atlas\\", "atlas", "/"].map(lastName), ["atlas", "atlas", "atlas", "/"]);
});
