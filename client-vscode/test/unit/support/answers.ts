/** Answers of the daemon for tests: complete, and small. */

import type { RecallResult, WireHit } from "../../../src/core/protocol";

export function hit(changes: Partial<WireHit> = {}): WireHit {
  const exchangeId = changes.exchangeId ?? "a95c9b48131d7e5f";
  return {
    drawerId: `${exchangeId}.0`,
    exchangeId,
    sessionId: "session-1",
    sessionTitle: "Tile server port",
    project: "/home/kim/atlas",
    agent: "claude-code",
    startedAt: "2026-03-04T10:00:01.250Z",
    text: "> Which port does the tile server listen on?\n\nIt listens on **8093**.",
    path: "/home/kim/.claude/projects/atlas/session-1.jsonl",
    lineStart: 3,
    lineEnd: 11,
    score: 0.9,
    parts: { bm25: 0.3, cosine: 0.5, statement: 0.1 },
    matchedTerms: ["port", "tile", "server"],
    alsoIn: [],
    alsoInCount: 0,
    neighbours: [],
    ...changes,
  };
}

export function answer(hits: readonly WireHit[], changes: Partial<RecallResult> = {}): RecallResult {
  return {
    hits,
    sessions: [],
    totals: { inScope: 4_310, matched: 81 },
    freshness: {
      sourcesPending: 0,
      vectorsPending: 0,
      drawers: 4_310,
      vectorsUsed: true,
      vectorsReason: "",
      model: "small",
      lastMinedAt: null,
      coverage: [],
    },
    tookMs: 3,
    isCut: false,
    hitsLeftOut: 0,
    projectsNear: [],
    ...changes,
  };
}
