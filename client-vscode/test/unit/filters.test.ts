import assert from "node:assert/strict";
import test from "node:test";

process.env.TZ = "Europe/Berlin";

import { readInput, type Scope, toAsk } from "../../src/core/filters";

const NOW = new Date("2026-03-31T22:30:00Z"); // already 1 April, 00:30, in Berlin
const AGENTS = ["claude-code", "claude-ai", "codex"];
const EVERYTHING: Scope = { place: "all", agent: "", span: "any" };
const ATLAS = { path: "/home/kim/atlas", name: "atlas" };

const read = (value: string) => readInput(value, NOW, AGENTS);
const ask = (value: string, scope: Partial<Scope> = {}, project: typeof ATLAS | undefined = ATLAS) =>
  toAsk(read(value), { ...EVERYTHING, ...scope }, { project, now: NOW, limit: 20 });

for (const text of [
  "std::vector vs std::array",
  "C:\\Users\\kim is full",
  "meet at 12:30",
  "https://example.org/a?b=c:d",
  "TODO: fix it",
  "what does key: value mean",
  "a::b project::x",
  "for x in: y",
  "in:production",
  "since:forever",
  '"project:atlas" is what I typed',
  "myproject:atlas",
  "SELECT * FROM t WHERE a = 'b'",
  "agent smith: who",
  'say "agent:codex is: fast" twice',
]) {
  test(`no filter stands in: ${text}`, () => {
    assert.deepEqual(read(text), { query: text, filters: {}, hints: [] });
  });
}

test("YAML with a space after the colon is no filter", () => {
  assert.equal(read("project: atlas").query, "project: atlas");
});

test("filters are taken out wherever they stand, and the rest is verbatim", () => {
  const input = read("why  did project:atlas we\tmove agent:codex");
  assert.deepEqual(input, { query: "why  did we\tmove", filters: { project: "atlas", agent: "codex" }, hints: [] });
});

test("names and values of filters are read in any case, projects are left as they are", () => {
  assert.deepEqual(read("PROJECT:Atlas Agent:CODEX x").filters, { project: "Atlas", agent: "codex" });
});

test("a quoted value may have spaces, and of two the last counts", () => {
  assert.deepEqual(read('project:"my app" project:"other app" x').filters, { project: "other app" });
});

test("a filter that is being typed filters nothing and says so", () => {
  for (const value of ["x project:", 'x project:"my', "x agent:", "x since:", "x since:2026-", "x since:2026-0", "x since:yes", "x in:", "x in:pro"]) {
    const input = read(value);
    assert.equal(input.query, "x", value);
    assert.deepEqual(input.filters, {}, value);
    assert.equal(input.hints.length, 1, value);
  }
});

test("a name that is not an agent's filters nothing and says so: the daemon would refuse the whole question", () => {
  for (const value of ["agent:claude", "agent:claude x"]) assert.match(read(value).hints[0] ?? "", /claude-code, claude-ai$/, value);
  for (const value of ["agent:nobody", "agent:nobody x"]) {
    assert.deepEqual(read(value).filters, {}, value);
    assert.deepEqual(read(value).hints, ["There is no agent nobody; those with sessions are claude-code, claude-ai, codex"], value);
  }
  assert.deepEqual(read("agent:cursor x").filters, { agent: "cursor" }, "one without sessions is known all the same");
  assert.match(read("agent:cur").hints[0] ?? "", /cursor/);
  assert.deepEqual(readInput("agent:nobody x", NOW).hints, ["There is no agent nobody"]);
});

test("dates: days, months, years, and words", () => {
  const cases: [string, object][] = [
    ["since:2026-03-01", { since: "2026-03-01" }],
    ["until:2026-02", { until: "2026-02-28" }],
    ["since:2026-02", { since: "2026-02-01" }],
    ["since:2025", { since: "2025-01-01" }],
    ["until:2025", { until: "2025-12-31" }],
    ["since:today", { since: "2026-04-01" }],
    ["since:yesterday", { since: "2026-03-31" }],
    ["since:14d", { since: "2026-03-18" }],
    ["since:2w", { since: "2026-03-18" }],
    ["since:2026-03-01T10:00:00Z", { since: "2026-03-01T10:00:00Z" }],
  ];
  for (const [value, filters] of cases) assert.deepEqual(read(value).filters, filters, value);
});

test("a time of day is written as the daemon reads it, and what only begins like one stays a word", () => {
  assert.deepEqual(read("since:2026-03-01t10:00z").filters, { since: "2026-03-01T10:00Z" });
  assert.deepEqual(read("since:2026-03-01T10:00:00.5+01:00").filters, { since: "2026-03-01T10:00:00.5+01:00" });
  assert.deepEqual(read("since:2026-03-01T10:00:00+01 x"), { query: "since:2026-03-01T10:00:00+01 x", filters: {}, hints: [] });
});

test("no date is from before the time that the daemon knows", () => {
  for (const value of ["since:9999m", "until:9999w", "since:1970", "since:1970-01"]) {
    assert.deepEqual(Object.values(read(value).filters), ["1970-01-02"], value);
  }
});

test("the beginning of one known agent's name before other words means that agent", () => {
  assert.deepEqual(read("agent:cod x").filters, { agent: "codex" });
});

test("a date that does not exist filters nothing and says so", () => {
  for (const value of ["since:2026-13", "since:2026-02-30 x", "since:2026-00-10"]) {
    assert.deepEqual([read(value).filters, read(value).hints.length], [{}, 1], value);
  }
});

test("the daemon is told the person's clock with its offset", () => {
  assert.equal(ask("x").params.now, "2026-04-01T00:30:00+02:00");
});

test("spans count days of the person's calendar, today among them, over a change of the clocks", () => {
  assert.equal(ask("x", { span: "today" }).params.since, "2026-04-01");
  assert.equal(ask("x", { span: "week" }).params.since, "2026-03-26");
  assert.equal(ask("x", { span: "month" }).params.since, "2026-03-03");
  assert.equal(ask("x").params.since, undefined);
});

test("what is typed goes before what the buttons say", () => {
  const asked = ask("x in:all agent:codex until:2026-03-01", { place: "project", agent: "claude-code", span: "today" });
  assert.deepEqual(asked.params, {
    query: "x",
    limit: 20,
    groupByExchange: true,
    now: "2026-04-01T00:30:00+02:00",
    agent: "codex",
    until: "2026-03-01",
  });
  assert.equal(asked.where, "in all projects · Codex · until 2026-03-01");
});

test("the window's project is asked for by its whole path, a typed one as it is", () => {
  assert.equal(ask("x", { place: "project" }).params.project, "/home/kim/atlas");
  assert.equal(ask("x", { place: "project" }).where, "in atlas");
  assert.equal(ask("project:/srv/tidepool x", { place: "project" }).where, "in tidepool");
});

test("without a folder the project's scope is everything, and nothing is narrowed", () => {
  const asked = toAsk(read("x"), { ...EVERYTHING, place: "project" }, { project: undefined, now: NOW, limit: 20 });
  assert.deepEqual([asked.project, asked.isNarrowed, asked.where], [undefined, false, "in all projects"]);
});
