/** What the real daemon answers, over the types that the extension believes in. */

import assert from "node:assert/strict";
import { cpSync, mkdirSync } from "node:fs";
import * as path from "node:path";
import { after, before, describe, test } from "node:test";

import { inWords, PalaceError } from "../../src/core/errors";
import type { Life } from "../../src/core/life";
import type {
  MineResult,
  RecallResult,
  SessionsResult,
  StatusResult,
  WireExchange,
  WireFreshness,
  WireHit,
  WireNote,
  WireProject,
  WireSession,
  WireTotals,
} from "../../src/core/protocol";
import { Home, stateOf, TRANSCRIPTS } from "./support/home";
import { assertShape, type Shape } from "./support/shapes";

const HIT: Shape<WireHit> = {
  drawerId: "string", exchangeId: "string", sessionId: "string", sessionTitle: "string", project: "string", agent: "string",
  startedAt: "string|null", text: "string", path: "string", lineStart: "number", lineEnd: "number", score: "number",
  parts: "object", matchedTerms: "array", alsoIn: "array", alsoInCount: "number", neighbours: "array",
};
const RECALL: Shape<RecallResult> = {
  hits: "array", sessions: "array", totals: "object", freshness: "object", tookMs: "number", isCut: "boolean",
  hitsLeftOut: "number", projectsNear: "array",
};
const FRESHNESS: Shape<WireFreshness> = {
  sourcesPending: "number", vectorsPending: "number", drawers: "number", vectorsUsed: "boolean", vectorsReason: "string",
  model: "string", lastMinedAt: "string|null", coverage: "array",
};
const TOTALS: Shape<WireTotals> = { inScope: "number", matched: "number" };
const STATUS: Shape<StatusResult> = {
  protocolVersion: "number", version: "string", pid: "number", dataDir: "string", uptimeS: "number", startedAt: "string|null",
  sessions: "number", exchanges: "number", exchangesSuperseded: "number", drawers: "number", vectors: "number",
  vectorsPending: "number", sources: "object", sourcesPending: "number", linesSkipped: "object", redactions: "object",
  failures: "object", watched: "array", notifier: "string", model: "string", modelState: "string", databaseBytes: "number",
  rssBytes: "number", lastError: "string", lastMinedAt: "string|null", embedding: "object",
};
const PROJECT: Shape<WireProject> = {
  path: "string", name: "string", sessions: "number", exchanges: "number", agents: "array", newestAt: "string|null",
};
const NOTE: Shape<WireNote> = {
  noteId: "string", text: "string", project: "string", tags: "array", author: "string", createdAt: "string|null",
  editedAt: "string|null", supersededBy: "string",
};

let home: Home;
let life: Life;

before(async () => {
  home = new Home();
  const projects = path.join(home.directory, ".claude", "projects", "-home-kim-atlas");
  mkdirSync(projects, { recursive: true });
  cpSync(path.join(TRANSCRIPTS, "claude-code", "plain.jsonl"), path.join(projects, "5e551000-0000-4000-8000-000000000001.jsonl"));
  life = home.life();
  life.begin();
  await stateOf(life, "ready");
});

after(async () => {
  await home[Symbol.asyncDispose]();
});

describe("a small memory", () => {
  test("is mined, with progress, and those who listen hear of it", async () => {
    const progress: string[] = [];
    const heard = new Promise<MineResult>((resolve) => life.on("palace/didMine", resolve));
    const mined = await life.request("palace/mine", { wait: true }, { onProgress: (value) => progress.push(value.kind) });
    assert.equal(mined.filesFailed, 0);
    assert.equal(progress[0], "begin");
    assert.equal(progress.at(-1), "end");
    assert.ok((await heard).files > 0);
    assert.equal((await life.request("palace/status", {})).exchanges, 4);
  });

  test("answers a question in the shape that the types say", async () => {
    const answer = await life.request("palace/recall", { query: "which port does the tile server use?", limit: 2 });
    assertShape<RecallResult>(answer, RECALL, "recall");
    assertShape<WireTotals>(answer.totals, TOTALS, "totals");
    assertShape<WireFreshness>(answer.freshness, FRESHNESS, "freshness");
    for (const hit of answer.hits) assertShape<WireHit>(hit, HIT, "hit");
    const [best] = answer.hits;
    assert.ok(best, "a hit");
    assert.ok(best.text.includes("8093"));
    assert.deepEqual([best.agent, best.project, best.lineStart], ["claude-code", "/home/kim/atlas", 3]);
  });

  test("gives an exchange whole", async () => {
    const { hits } = await life.request("palace/recall", { query: "tile server port", limit: 1 });
    const exchange: WireExchange = await life.request("palace/get", { id: hits[0]?.exchangeId ?? "" });
    assert.equal(exchange.exchangeId, hits[0]?.exchangeId);
  });

  test("lists sessions and projects in the shape that the types say", async () => {
    const sessions = (await life.request("palace/sessions", { limit: 5 })) as SessionsResult;
    const [session]: readonly WireSession[] = sessions.sessions;
    assert.equal(session?.project, "/home/kim/atlas");
    const projects = await life.request("palace/projects", {});
    assertShape<WireProject>(projects.projects[0], PROJECT, "project");
    assert.equal(projects.projects[0]?.name, "atlas");
  });

  test("says how it is in the shape that the types say", async () => {
    assertShape<StatusResult>(await life.request("palace/status", {}), STATUS, "status");
  });

  test("keeps a note, and finds it", async () => {
    const { note, isNew } = await life.request("palace/remember", { text: "The kestrel release goes out on Fridays.", author: "kim" });
    assert.equal(isNew, true);
    assertShape<WireNote>(note, NOTE, "note");
    const { hits } = await life.request("palace/recall", { query: "when does the kestrel release go out?", limit: 1 });
    assert.equal(hits[0]?.exchangeId, note.noteId);
  });

  test("refuses a parameter in the daemon's words", async () => {
    await assert.rejects(life.request("palace/recall", { query: "q", limit: -1 }), (error) => error instanceof PalaceError && error.kind === "params");
    await assert.rejects(life.request("palace/recall", { query: "q", agent: "nobody" }), (error) => {
      const words = inWords(error);
      assert.match(words, /^Unknown agent in the filter\. Known are /);
      return !words.includes("(known are");
    });
    await assert.rejects(life.request("palace/get", { id: "0000000000000000" }), (error) => error instanceof PalaceError && error.kind === "notFound");
  });

  test("two windows each get the answers to what they asked, and both hear what one of them changes", async () => {
    const other = home.life();
    other.begin();
    await stateOf(other, "ready");
    const ask = async (asking: Life, from: number): Promise<void> => {
      for (let limit = from; limit < from + 8; limit += 2) {
        const words = `tile server ${limit}`;
        const answer = await asking.request("palace/recall", { query: words, limit: 1 });
        assert.ok(answer.hits[0]?.matchedTerms.every((term) => words.includes(term)));
      }
    };
    const heard = Promise.all([life, other].map((one) => new Promise((resolve) => one.on("palace/didMine", resolve))));
    await Promise.all([ask(life, 1), ask(other, 2), ask(life, 10), ask(other, 20)]);
    await other.request("palace/remember", { text: "Both windows hear of this." });
    await heard;
    assert.equal((await life.request("palace/status", {})).pid, (await other.request("palace/status", {})).pid);
  });
});
