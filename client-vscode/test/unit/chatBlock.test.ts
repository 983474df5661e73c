import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { CLOSING, estimatedTokens, neutralised, ofHits, OPENING, recalled, shortened, wrappedWithin } from "../../src/core/chatBlock";
import type { RecallResult, WireFreshness, WireHit } from "../../src/core/protocol";

process.env.TZ = "UTC";

interface Cases {
  readonly hits: readonly WireHit[];
  readonly blocks: readonly { readonly hits: readonly number[]; readonly maxTokens: number; readonly text: string; readonly leftOut: number }[];
  readonly neutralised: readonly { readonly text: string; readonly becomes: string }[];
  readonly tokens: readonly { readonly text: string; readonly count: number }[];
}

const cases = JSON.parse(readFileSync(new URL("data/blocks.json", import.meta.url), "utf8")) as Cases;

const FRESH: WireFreshness = {
  sourcesPending: 0,
  vectorsPending: 0,
  drawers: 4,
  vectorsUsed: true,
  vectorsReason: "",
  model: "m",
  lastMinedAt: null,
  coverage: [],
};

function result(hits: readonly WireHit[], more: Partial<RecallResult> = {}): RecallResult {
  return {
    hits,
    sessions: [],
    totals: { inScope: 4, matched: 0 },
    freshness: FRESH,
    tookMs: 1,
    isCut: false,
    hitsLeftOut: 0,
    projectsNear: [],
    ...more,
  };
}

test("a block is the one that the daemon's agents are given, to the character", () => {
  assert.ok(cases.blocks.length > 20);
  for (const { hits, maxTokens, text, leftOut } of cases.blocks) {
    const chosen = hits.map((index) => cases.hits[index]).filter((hit) => hit !== undefined);
    const each = Math.max(Math.floor(maxTokens / 2), Math.floor(maxTokens / chosen.length));
    assert.deepEqual(wrappedWithin(maxTokens, ofHits(chosen, each)), { text, leftOut }, `${hits.join()} in ${maxTokens}`);
  }
});

test("markers and controls in quoted text are made harmless as the daemon does it", () => {
  for (const { text, becomes } of cases.neutralised) assert.equal(neutralised(text), becomes);
});

test("tokens are estimated as the daemon estimates them", () => {
  for (const { text, count } of cases.tokens) assert.equal(estimatedTokens(text), count);
});

test("nothing that is quoted ends the block before its end", () => {
  const text = recalled(result(cases.hits), {}, 4_000);
  assert.ok(text.startsWith(OPENING));
  assert.equal(text.split(CLOSING).length, 2);
  assert.equal(text.split(OPENING).length, 2);
});

test("what did not fit is told, by us and by the daemon", () => {
  const { text, leftOut } = wrappedWithin(400, ofHits(cases.hits, 200));
  assert.ok(leftOut > 0);
  const told = recalled(result(cases.hits, { hitsLeftOut: 3 }), {}, 400);
  assert.equal(told, `${text}\n${leftOut + 3} more did not fit: ask more narrowly.`);
});

test("what an answer may lack stands below it", () => {
  const freshness = { ...FRESH, sourcesPending: 3, vectorsReason: "the model is being loaded" };
  const text = recalled(result(cases.hits.slice(0, 1), { freshness }), {}, 2_000);
  assert.ok(text.endsWith(`${CLOSING}\nIncomplete: 3 files are still to be read; meaning took part only in part: the model is being loaded.`));
});

test("an empty answer says where it looked, and which project may have been meant", () => {
  assert.equal(recalled(result([]), {}, 2_000), "Nothing found among 4 pieces.");
  const text = recalled(result([], { projectsNear: ["/home/kim/atlas"] }), { project: "atlsa" }, 2_000);
  assert.equal(text, 'Nothing found among 4 pieces. No project is called "atlsa"; near it: /home/kim/atlas. Leave out project to search more.');
});

test("a cut falls between words and never inside a character", () => {
  assert.equal(shortened("one two three four five six seven", 6), "one two three […]");
  for (const tokens of [3, 4, 5, 6, 7, 8]) {
    const cut = shortened("🎉".repeat(40), tokens);
    assert.match(cut, /^(?:🎉)* \[…\]$/u);
    assert.ok(estimatedTokens(cut) <= tokens);
  }
});
