import assert from "node:assert/strict";
import test from "node:test";

process.env.TZ = "Europe/Berlin";

import { exchangeText, fenceFor, fileNameOf, titleOf } from "../../src/core/exchangeDocument";
import { quoteForChat, saidText } from "../../src/core/quoting";
import { exchangeOf } from "./support/told";

const FILE = "/home/kim/.claude/projects/atlas/session-1.jsonl";
const place = { path: FILE, lineStart: 3, lineEnd: 11, byteStart: 0, byteEnd: 9, isOwner: true };
const TOLD = exchangeOf({
  userText: "Which port does the tile server listen on?",
  replyText: "It listens on **8093**.\n\n```toml\nport = 8093\n```",
  model: "claude-opus-4-6",
  provenance: [place, { ...place, path: `${FILE}.old`, lineStart: 5, lineEnd: 5, isOwner: false }],
  tools: [{ name: "Read", target: "/home/kim/atlas/tiles.toml" }, { name: "Bash", target: "echo `date`" }],
  neighbours: [
    { exchangeId: "b1", relation: -1, startedAt: null, userText: "Start the server.", replyText: "It runs." },
    { exchangeId: "a2", relation: 2, startedAt: null, userText: "", replyText: "Done." },
  ],
});

/** The text of the fence that begins at or after a heading. */
function fenced(text: string, heading: string): string {
  const after = text.slice(text.indexOf(`\n## ${heading}\n`));
  const match = /^(`{3,})markdown\n([^]*?)\n\1$/m.exec(after);
  return match?.[2] ?? "";
}

test("what was said stands in it verbatim, in fences that nothing in it closes", () => {
  const { text } = exchangeText(TOLD);
  assert.equal(fenced(text, "Asked"), TOLD.userText);
  assert.equal(fenced(text, "Answered"), TOLD.replyText);
});

test("a fence is longer than any run of backticks in the text", () => {
  assert.equal(fenceFor("none"), "```");
  assert.equal(fenceFor("````\n```\n`````x"), "``````");
  const reply = "`````\nnested\n`````\n## Answered\n";
  assert.equal(fenced(exchangeText({ ...TOLD, replyText: reply }).text, "Answered"), reply);
});

test("it says with which agent, in which project and when it was said", () => {
  const { text } = exchangeText(TOLD);
  for (const line of ["# Which port does the tile server listen on?", "- Agent: Claude Code, claude-opus-4-6", "- Project: /home/kim/atlas", "- Branch: main", "- Session id: 5e55", "- When: Mar 4, 2026, 11:00"]) {
    assert(text.split("\n").includes(line), line);
  }
  assert.match(exchangeText({ ...TOLD, timeQuality: "file" }).text, /When: about /);
  assert.match(exchangeText({ ...TOLD, startedAt: null, endedAt: null }).text, /When: unknown/);
  assert.match(exchangeText({ ...TOLD, isSuperseded: true }).text, /taken back/);
});

test("each link covers the words that the line shows", () => {
  const { text, links } = exchangeText(TOLD);
  const lines = text.split("\n");
  const covered = links.map((one) => [lines[one.line]?.slice(one.start, one.end), one.target]);
  assert.deepEqual(covered, [
    [`${FILE}, lines 3 to 11`, { kind: "transcript", exchangeId: TOLD.exchangeId, place: 0 }],
    [`${FILE}.old, line 5`, { kind: "transcript", exchangeId: TOLD.exchangeId, place: 1 }],
    ["Start the server.", { kind: "exchange", exchangeId: "b1" }],
    ["Done.", { kind: "exchange", exchangeId: "a2" }],
  ]);
});

test("links stay in place below texts with line ends of every system", () => {
  const { text, links } = exchangeText({ ...TOLD, replyText: "one\r\ntwo\rthree\nfour" });
  const [first] = links;
  assert(first);
  assert.equal(text.split("\n")[first.line]?.slice(first.start, first.end), `${FILE}, lines 3 to 11`);
});

test("a note has no transcript and no reply", () => {
  const { text, links } = exchangeText({ ...TOLD, agent: "note", replyText: "", provenance: [{ ...place, path: "palace:notes" }], neighbours: [] });
  assert.match(text, /## Said/);
  assert.doesNotMatch(text, /## Answered/);
  assert.match(text, /Kept by Palace itself/);
  assert.deepEqual(links, []);
});

test("a tool's target cannot end its own code", () => {
  assert.match(exchangeText(TOLD).text, /- Bash `` echo `date` ``/);
});

test("no picture of a transcript stands outside of the fences", () => {
  const evil = "![x](http://example.org/p.png) <img src='http://example.org/q.png'>";
  const told = exchangeOf({ userText: evil, replyText: evil, sessionTitle: evil, neighbours: [{ exchangeId: "b", relation: 1, startedAt: null, userText: evil, replyText: evil }] });
  const outside = exchangeText(told).text.replace(/^(`{3,})markdown\n[^]*?\n\1$/gm, "");
  assert.doesNotMatch(outside, /example\.org/);
});

test("no link, picture or HTML stands outside of the fences, if the document is previewed", () => {
  const evil = '![x](http://example.org/p.png "t") [run](command:quit "t") [a][b] <iframe src=x <!--';
  const told = exchangeOf({
    userText: evil, replyText: evil, sessionTitle: evil, project: `/p/${evil}`, cwd: evil, branch: `${evil}\n## Answered`, model: evil,
    tools: [{ name: `${evil}\n# x`, target: "" }],
    provenance: [{ ...place, path: `/t/${evil}\nx` }],
    neighbours: [{ exchangeId: "b", relation: 1, startedAt: null, userText: evil, replyText: "r" }],
  });
  const { text, links } = exchangeText(told);
  const outside = text.replace(/^(`{3,})markdown\n[^]*?\n\1$/gm, "");
  assert.doesNotMatch(outside, /\][([]|<[a-z!]/);
  assert.equal(outside.match(/^#+ /gm)?.length, 6, "headings are our own");
  const lines = text.split("\n");
  for (const one of links) assert.equal(lines[one.line]?.length, one.end, "the link ends where its line does");
});

test("an exchange of megabytes is written whole: more lines and backticks than a call takes arguments, and lines without an end", () => {
  const lines = "a `b`\n".repeat(300_000);
  assert.equal(fenced(exchangeText({ ...TOLD, replyText: lines }).text, "Answered"), lines);
  const endless = "**a ".repeat(500_000);
  const { text } = exchangeText({ ...TOLD, userText: endless, neighbours: [{ exchangeId: "b", relation: 1, startedAt: null, userText: "", replyText: endless }] });
  assert(text.includes(endless));
});

test("a name that turns around does not", () => {
  assert.equal(fileNameOf(titleOf(exchangeOf({ userText: "why \u202ecod.exe\u0007" }))), "why cod.exe.md");
});

test("the name is that of the question, without what paths give a meaning to", () => {
  assert.equal(titleOf(TOLD), "Which port does the tile server listen on?");
  assert.equal(fileNameOf("Why a/b\\c: *x*?"), "Why a b c x.md");
  assert.equal(fileNameOf("..."), "Exchange.md");
  assert.equal(titleOf(exchangeOf({ userText: "", sessionTitle: "" })), "Exchange");
});

test("what is copied is the reply, and of a note its text", () => {
  assert.equal(saidText(TOLD), TOLD.replyText);
  assert.equal(saidText(exchangeOf({ userText: "remember", replyText: "" })), "remember");
});

test("every line of a quotation is quoted, and it says where it comes from", () => {
  const quotation = quoteForChat({ ...TOLD, replyText: "one\r\n\r\n> two\n```\ncode\n```" });
  const lines = quotation.trimEnd().split("\n");
  assert(lines.every((line) => line.startsWith(">")), quotation);
  assert.equal(lines[0], "> Quoted from an earlier session: Claude Code in atlas, Mar 4, 2026, 11:00");
  assert(lines.includes(`> Source: ${FILE}, lines 3 to 11`));
  assert(lines.includes("> > two"));
  assert(quotation.endsWith("\n\n"), "what is asked next is no part of it");
});
