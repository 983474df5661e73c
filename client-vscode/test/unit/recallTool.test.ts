import assert from "node:assert/strict";
import { test } from "node:test";

import { CLOSING, OPENING } from "../../src/core/chatBlock";
import type { Answer, MethodName, Params, RequestOptions } from "../../src/core/connection";
import { PalaceError } from "../../src/core/errors";
import type { Palace } from "../../src/core/palace";
import type { RecallResult, WireHit } from "../../src/core/protocol";
import { answer, ANSWER_TOKENS, checkedInput, whileSearching } from "../../src/core/recallTool";

const NOW = new Date("2026-03-10T09:00:00Z");
const NEVER = new AbortController().signal;

function hit(text: string): WireHit {
  return {
    drawerId: "a95c9b48131d7e5f.0",
    exchangeId: "a95c9b48131d7e5f",
    sessionId: "5e551000",
    sessionTitle: "Tile server port",
    project: "/home/kim/atlas",
    agent: "claude-code",
    startedAt: "2026-03-04T10:00:01.250Z",
    text,
    path: "/t.jsonl",
    lineStart: 3,
    lineEnd: 11,
    score: 1,
    parts: {},
    matchedTerms: [],
    alsoIn: [],
    alsoInCount: 0,
    neighbours: [],
  };
}

function found(...hits: WireHit[]): RecallResult {
  return {
    hits,
    sessions: [],
    totals: { inScope: 4, matched: 2 },
    freshness: { sourcesPending: 0, vectorsPending: 0, drawers: 4, vectorsUsed: true, vectorsReason: "", model: "m", lastMinedAt: null, coverage: [] },
    tookMs: 1,
    isCut: false,
    hitsLeftOut: 0,
    projectsNear: [],
  };
}

type Asked = Record<string, unknown>;

/** A daemon that gives one answer, or fails, and keeps what it was asked. */
function daemon(gives: (signal: AbortSignal | undefined) => Promise<RecallResult>): Pick<Palace, "request"> & { asked: Asked[] } {
  const asked: Asked[] = [];
  return {
    asked,
    request: async <M extends MethodName>(method: M, params: Params<M>, options?: RequestOptions): Promise<Answer<M>> => {
      assert.equal(method, "palace/recall");
      asked.push({ ...params });
      return (await gives(options?.signal));
    },
  };
}

for (const [what, input, words] of [
  ["no object", "which port?", /it takes an object with query, project, agent, since, until, limit/],
  ["null", null, /it takes an object/],
  ["a list", ["which port?"], /it takes an object/],
  ["no query", {}, /query must say what you want to know/],
  ["a blank query", { query: " \n" }, /query must say/],
  ["a query that is a number", { query: 7 }, /query must be a string/],
  ["an unknown field", { query: "x", projects: "a" }, /there is no projects; it takes query/],
  ["a relative project", { query: "x", project: "./atlas" }, /project must be an absolute path or the last name/],
  ["a project in the home", { query: "x", project: "~/atlas" }, /project must be an absolute path/],
  ["an agent that is a list", { query: "x", agent: ["codex"] }, /agent must be a string/],
  ["a date in words", { query: "x", since: "last week" }, /since must be a date as YYYY-MM-DD/],
  ["a day that does not exist", { query: "x", until: "2026-13-45" }, /until must be a date/],
  ["limit zero", { query: "x", limit: 0 }, /limit must be a whole number from 1 to 20/],
  ["a limit in halves", { query: "x", limit: 2.5 }, /limit must be a whole number/],
  ["a limit in words", { query: "x", limit: "5" }, /limit must be a whole number/],
  ["a limit of 21", { query: "x", limit: 21 }, /from 1 to 20/],
] as const) {
  test(`${what} is refused with words that say how to put it right`, async () => {
    assert.throws(
      () => checkedInput(input),
      (error) => error instanceof PalaceError && error.kind === "params" && words.test(error.message),
    );
    const palace = daemon(() => Promise.resolve(found()));
    assert.match(await answer(palace, input, { signal: NEVER, now: NOW }), words);
    assert.deepEqual(palace.asked, []);
  });
}

test("what a model leaves out, in whatever way, filters nothing", () => {
  assert.deepEqual(checkedInput({ query: " which port? " }), { query: "which port?", limit: 5 });
  const given = { query: "which port?", project: "", agent: null, since: undefined, until: "", limit: null };
  assert.deepEqual(checkedInput(given), { query: "which port?", limit: 5 });
});

test("all filters are passed on", () => {
  const given = { query: "q", project: "/home/kim/atlas", agent: "codex", since: "2026-03-01", until: "2026-03-04T10:00:00+01:00", limit: 20 };
  assert.deepEqual(checkedInput(given), given);
});

test("the answer is the daemon's, in one block, and its budget is asked for", async () => {
  const palace = daemon(() => Promise.resolve(found(hit("> Which port?\n\nIt listens on 8093."))));
  const text = await answer(palace, { query: "which port?" }, { signal: NEVER, now: NOW });
  assert.ok(text.startsWith(OPENING) && text.endsWith(CLOSING));
  assert.match(text, /\[1\] .*claude-code, \/home\/kim\/atlas, “Tile server port”, id a95c9b48131d7e5f\.0/);
  assert.match(text, /It listens on 8093\./);
  const asked = palace.asked[0] ?? {};
  assert.equal(asked.maxTokens, ANSWER_TOKENS);
  assert.equal(new Date(String(asked.now)).getTime(), NOW.getTime());
  assert.match(String(asked.now), /[+-]\d\d:\d\d$/);
});

test("a chat's own count bounds the answer, where it counts more than we estimate", async () => {
  const palace = daemon(() => Promise.resolve(found(hit("word ".repeat(400)), hit("more ".repeat(400)))));
  const countTokens = (text: string): Promise<number> => Promise.resolve(text.length / 2);
  const room = { tokenBudget: 300, countTokens };
  const text = await answer(palace, { query: "q" }, { signal: NEVER, now: NOW, room });
  assert.equal(palace.asked[0]?.maxTokens, 300);
  assert.ok(text.length / 2 <= 300, String(text.length / 2));
  assert.match(text, /word/);
});

test("a count that fails costs no answer", async () => {
  const palace = daemon(() => Promise.resolve(found(hit("It listens on 8093."))));
  const room = { tokenBudget: 500, countTokens: () => Promise.reject(new Error("no tokenizer")) };
  assert.match(await answer(palace, { query: "q" }, { signal: NEVER, now: NOW, room }), /8093/);
});

test("a daemon that is not there is told, with what the model is to do", async () => {
  const palace = daemon(() => Promise.reject(new PalaceError("no daemon is running", "notRunning", "install it first")));
  const text = await answer(palace, { query: "q" }, { signal: NEVER, now: NOW });
  assert.match(text, /^Nothing was searched\. No daemon is running\. Install it first\. Go on without it/);
  assert.match(text, /Palace: Show Status/);
});

test("a parameter that only the daemon can judge comes back as its own words", async () => {
  const palace = daemon(() => Promise.reject(new PalaceError("since is after until", "params", "swap them")));
  assert.equal(await answer(palace, { query: "q" }, { signal: NEVER, now: NOW }), "Since is after until. Swap them.");
});

test("a withdrawn question is withdrawn at the daemon, and nothing is answered", async () => {
  const withdrawal = new AbortController();
  const palace = daemon(
    (signal) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener("abort", () => {
          reject(new PalaceError("the request was withdrawn", "cancelled"));
        });
        withdrawal.abort();
      }),
  );
  await assert.rejects(answer(palace, { query: "q" }, { signal: withdrawal.signal, now: NOW }), { kind: "cancelled" });
});

test("a daemon that does not come up is given up on", async () => {
  const palace = daemon(
    (signal) =>
      new Promise((_resolve, reject) => {
        // The limit alone keeps no process alive; in an editor something always does.
        const alive = setInterval(() => undefined, 1_000);
        signal?.addEventListener("abort", () => {
          clearInterval(alive);
          reject(new PalaceError("the request was withdrawn", "cancelled"));
        });
      }),
  );
  const text = await answer(palace, { query: "q" }, { signal: NEVER, now: NOW, limitMs: 1 });
  assert.match(text, /^Nothing was searched\. The daemon did not answer in time\. Go on/);
});

test("the message while it searches names a project and passes on nothing else", () => {
  assert.equal(whileSearching({ query: "q" }), "Searching earlier sessions");
  assert.equal(whileSearching({ query: "q", project: "/home/kim/atlas/" }), "Searching earlier sessions of atlas");
  assert.equal(whileSearching({ query: "q", project: "[x](command:y)" }), "Searching earlier sessions");
  assert.equal(whileSearching(undefined), "Searching earlier sessions");
});
