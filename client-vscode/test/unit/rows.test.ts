import assert from "node:assert/strict";
import test from "node:test";

process.env.TZ = "Europe/Berlin";

import { PalaceError } from "../../src/core/errors";
import { readInput, type Scope, toAsk } from "../../src/core/filters";
import { emptyRows, errorRow, isProject, placeholder, stateRow } from "../../src/core/notices";
import type { WireHit, WireProject } from "../../src/core/protocol";
import { askedLine, type HitRow, hitRows, lookedAt, scoreParts, turns } from "../../src/core/rows";
import { answer, hit } from "./support/answers";

const NOW = new Date("2026-03-10T09:00:00Z");
const ASKED = { query: "tile server port", now: NOW, isOneProject: false };

function rows(hits: readonly WireHit[], shown = ASKED) {
  return hitRows(answer(hits), shown);
}
function row(changes: Partial<WireHit>, shown = ASKED): HitRow {
  const found = rows([hit(changes)], shown).find((one) => one.kind === "hit");
  assert(found);
  return found;
}
const labels = (hits: readonly WireHit[], shown = ASKED) =>
  rows(hits, shown).map((one) => (one.kind === "separator" ? `-- ${one.label}` : one.hit.exchangeId));

test("the order is the daemon's, whatever the scores, dates and projects are", () => {
  const hits = ["c", "a", "b"].map((exchangeId, at) => hit({ exchangeId, score: at, project: `/p/${exchangeId}`, startedAt: `2026-03-0${at + 1}T00:00:00Z` }));
  const ids = rows(hits).flatMap((one) => (one.kind === "hit" ? [one.hit.exchangeId] : []));
  assert.deepEqual(ids, ["c", "a", "b"]);
});

test("runs of the same project are groups where they are long, and the rows then leave its name out", () => {
  const of = (exchangeId: string, project: string) => hit({ exchangeId, project });
  const hits = [of("1", "/p/atlas"), of("2", "/p/atlas"), of("3", ""), of("4", ""), of("5", "/p/atlas"), of("6", "/p/atlas")];
  assert.deepEqual(labels(hits), ["-- atlas", "1", "2", "-- no project", "3", "4", "-- atlas", "5", "6"]);
  for (const one of rows(hits)) if (one.kind === "hit") assert.doesNotMatch(one.description, /atlas|no project/);
});

test("where projects change at nearly every row there are no groups, and each row has its project", () => {
  const of = (exchangeId: string, project: string) => hit({ exchangeId, project });
  const hits = [of("1", "/p/atlas"), of("2", "/p/tidepool"), of("3", "/p/atlas"), of("4", "/p/atlas")];
  assert.deepEqual(labels(hits), ["1", "2", "3", "4"]);
  const projects = rows(hits).map((one) => (one.kind === "hit" ? one.description.split(" · ")[0] : ""));
  assert.deepEqual(projects, ["atlas", "tidepool", "atlas", "atlas"]);
});

test("without a question days are the groups, in the person's zone, and rows have the time of day", () => {
  const at = (exchangeId: string, startedAt: string | null) => hit({ exchangeId, startedAt });
  const hits = [at("1", "2026-03-10T08:00:00Z"), at("2", "2026-03-09T23:30:00Z"), at("3", "2026-03-09T22:30:00Z"), at("4", null)];
  const newest = { ...ASKED, query: "" };
  assert.deepEqual(labels(hits, newest), ["-- Today", "1", "2", "-- Yesterday", "3", "-- Without a date", "4"]);
  const descriptions = rows(hits, newest).flatMap((one) => (one.kind === "hit" ? [one.description] : []));
  assert.deepEqual(descriptions, ["atlas · Claude Code · 09:00", "atlas · Claude Code · 00:30", "atlas · Claude Code · 23:30", "atlas · Claude Code"]);
});

test("in one project there are no groups, and rows do not repeat its name", () => {
  const shown = { ...ASKED, isOneProject: true };
  assert.deepEqual(labels([hit({ exchangeId: "1" }), hit({ exchangeId: "2" })], shown), ["1", "2"]);
  assert.doesNotMatch(row({}, shown).description, /atlas/);
});

test("it is said how much was looked at, and what an answer lacks", () => {
  const { freshness } = answer([]);
  assert.equal(lookedAt(answer([]), ""), "4,310 passages");
  assert.equal(lookedAt(answer([]), "x"), "words in 81 of 4,310 passages");
  const lacking = answer([], { freshness: { ...freshness, sourcesPending: 3, vectorsPending: 1_200 } });
  assert.match(lookedAt(lacking, "x"), /3 files still to read · 1,200 texts still to embed$/);
  const wordless = answer([], { freshness: { ...freshness, vectorsUsed: false, vectorsReason: "the model is not installed" } });
  assert.match(lookedAt(wordless, "x"), /by words only$/);
});

test("of a question of a whole paragraph no words are marked", () => {
  const words = "it listens on this port since we moved the tile server last year in march".split(" ");
  assert.doesNotMatch(row({ matchedTerms: words }).detail, /«/);
});

test("a row shows what was asked, where and when, and the passage with the matched words", () => {
  const { label, description, detail, icon } = row({ startedAt: "2026-03-10T06:00:00Z", matchedTerms: ["listen", "port"] });
  assert.equal(label, "Which port does the tile server listen on?");
  assert.equal(description, "atlas · Claude Code · 3 h ago");
  assert.equal(detail, "It «listens» on 8093.");
  assert.equal(icon, "sparkle");
});

test("agents that are not known yet and notes have an icon, too", () => {
  assert.equal(row({ agent: "brand-new" }).icon, "comment-discussion");
  assert.match(row({ agent: "brand-new" }).description, /brand-new/);
  assert.equal(row({ agent: "note", text: "> The tile server moved." }).icon, "note");
});

test("no text of a transcript becomes an icon of the editor", () => {
  const { label, detail } = row({ text: "> why does $(trash) vanish\n\nBecause $(bug) is run by the shell", matchedTerms: [] });
  assert.doesNotMatch(label + detail, /\$\(/);
  assert.match(label, /trash/);
});

test("no text of a transcript turns a row around or brings control characters into it", () => {
  const { label, detail } = row({ text: "> why \u202egpj.exe \u001b[0m\u0007\n\nBecause \u2067it does", matchedTerms: [] });
  assert.doesNotMatch(label + detail, /[\p{Cc}\u202a-\u202e\u2066-\u2069]/u);
});

test("what was found by its meaning alone says so", () => {
  assert.match(row({ matchedTerms: [] }).description, /by meaning/);
  assert.doesNotMatch(row({ matchedTerms: [] }, { ...ASKED, query: "" }).description, /by meaning/);
});

test("what says the same elsewhere is counted", () => {
  const also = (sessionId: string) => ({ exchangeId: "x", sessionId, startedAt: null, path: "" });
  assert.match(row({ alsoIn: [also("2"), also("3"), also("3")], alsoInCount: 3 }).description, /also in 2 sessions/);
  assert.match(row({ alsoIn: [also("2")], alsoInCount: 1 }).description, /also in 1 session$/);
  assert.match(row({ alsoIn: [also("2"), also("3")], alsoInCount: 40 }).description, /also in 2 or more sessions/);
  assert.match(row({ alsoIn: [also("session-1")], alsoInCount: 1 }).description, /said 2 times/);
});

test("the label is the first line with words: fences, headings and tags before it are left out", () => {
  assert.equal(askedLine("```\n---\n## Why *here*?\nmore", 60), "Why here?");
  assert.equal(row({ text: "An answer without a question" }).label, "Tile server port");
});

test("a label of a long question ends at a word", () => {
  const { label } = row({ text: `> ${"several words ".repeat(20)}\n\nyes` });
  assert(label.length <= 57);
  assert.match(label, /(several|words)…$/);
});

test("where only the rest of a long turn has the words, it is shown in the place of the reply", () => {
  const long = `> ${"Some words before it comes to the point, which takes a while. ".repeat(3)}The cassette deck hums.\n\nI see.`;
  assert.match(row({ text: long, matchedTerms: ["cassette"] }).detail, /«cassette»/);
});

test("a drawer is split into what the person said and the reply, and quotations in the reply stay", () => {
  assert.deepEqual(turns("> one\n>\n> two\n\n> quoted\nreply"), { asked: "one\n\ntwo", reply: "> quoted\nreply" });
  assert.deepEqual(turns("> note only"), { asked: "note only", reply: "" });
});

test("the parts of a score come with their meaning, the largest first", () => {
  assert.deepEqual(scoreParts(hit()).map((one) => one.name), ["cosine", "bm25", "statement"]);
  assert(scoreParts(hit()).every((one) => one.meaning));
});

const PROJECTS: WireProject[] = [{ path: "/home/kim/atlas", name: "atlas", sessions: 3, exchanges: 4_000, agents: ["codex"], newestAt: null }];
const INDEXED = { exchanges: 4_000, projects: PROJECTS };
const asking = (value: string, scope: Partial<Scope> = {}) =>
  toAsk(readInput(value, NOW), { place: "all", agent: "", span: "any", ...scope }, { project: { path: "/home/kim/other", name: "other" }, now: NOW, limit: 20 });

test("without a result it says where it looked and what there is, and offers to look everywhere", () => {
  const result = answer([], { totals: { inScope: 0, matched: 0 } });
  const [first, ...rest] = emptyRows(result, asking("x project:atlas", { agent: "codex" }), INDEXED);
  assert.equal(first?.label, "Nothing found in atlas · Codex");
  assert.equal(first.detail, "4,310 passages are indexed, none of them here.");
  assert.deepEqual(rest.map((one) => one.action), [{ kind: "widen" }]);
});

test("a project that the daemon does not know is called unknown, and near ones are offered", () => {
  const result = answer([], { totals: { inScope: 0, matched: 0 }, projectsNear: ["/home/kim/others"] });
  const found = emptyRows(result, asking("x", { place: "project" }), INDEXED);
  assert.equal(found[0]?.label, "Palace knows no project “other”");
  assert.match(found[0].detail, /\/home\/kim\/other /);
  assert.deepEqual(found.map((one) => one.action?.kind), [undefined, "project", "widen"]);
});

test("where nothing narrows the search nothing is offered, and an empty store says what to expect", () => {
  assert.equal(emptyRows(answer([]), asking("x"), INDEXED).length, 1);
  const { freshness } = answer([]);
  const [row] = emptyRows(answer([], { freshness: { ...freshness, drawers: 0, sourcesPending: 7 } }), asking("x"), INDEXED);
  assert.equal(row?.label, "Nothing is stored yet");
  assert.match(row.detail, /7 files still to read/);
});

test("projects are named as the daemon's filter reads them", () => {
  assert(isProject("/home/kim/atlas", "/home/kim/atlas/"));
  assert(isProject("/home/kim/atlas", "/home/kim"));
  assert(isProject("C:\\work\\atlas", "C:\\work"));
  assert(isProject("/home/kim/atlas", "atlas"));
  assert(!isProject("/home/kim/atlas2", "/home/kim/atlas"));
  assert(!isProject("", "atlas"));
});

test("the placeholder says what is indexed", () => {
  assert.equal(placeholder(INDEXED), "Search 4,000 exchanges of 1 project");
  assert.equal(placeholder({ exchanges: 0, projects: [] }), "Nothing is stored yet");
  assert.match(placeholder(undefined), /^Search /);
});

test("every state but ready has a row, and those that need a person have what to do", () => {
  assert.equal(stateRow({ kind: "ready", version: "1", dataDirectory: "/d" }), undefined);
  assert.equal(stateRow({ kind: "starting" })?.action, undefined);
  assert.match(stateRow({ kind: "waiting", retryInMs: 100, reason: "it was killed" })?.detail ?? "", /^It was killed\. The search goes on/);
  assert.deepEqual(stateRow({ kind: "missing", reason: "no Python", hint: "" })?.action, { kind: "command", command: "palace.installDaemon" });
  assert.deepEqual(stateRow({ kind: "failed", reason: "crashed", hint: "see the log" })?.action, { kind: "command", command: "palace.restartDaemon" });
  assert.deepEqual(stateRow({ kind: "off" })?.action, { kind: "command", command: "palace.restartDaemon" });
});

test("an error is told in words, with the way on", () => {
  const row = errorRow(new PalaceError("the store is busy", "storeBusy", "wait a moment"));
  assert.equal(row.detail, "The store is busy. Wait a moment. Enter tries again.");
  assert.deepEqual(row.action, { kind: "retry" });
});
