/** What a daemon may tell, whole, with what a test cares about put in its place. */

import type { ForgetResult, MineResult, StatusResult, WireEmbedding, WireExchange, WireForgetItem, WireProject, WireSession } from "../../../src/core/protocol";

const TIME = "2026-03-04T10:00:01.250Z";

export function projectOf(given: Partial<WireProject>): WireProject {
  return { path: "/home/kim/atlas", name: given.path?.split("/").at(-1) ?? "atlas", sessions: 1, exchanges: 4, agents: ["claude-code"], newestAt: TIME, ...given };
}

export function sessionOf(given: Partial<WireSession>): WireSession {
  return {
    sessionId: "5e55",
    agent: "claude-code",
    project: "/home/kim/atlas",
    title: "Tile server port",
    parentSessionId: "",
    relation: "none",
    startedAt: TIME,
    endedAt: TIME,
    exchanges: 4,
    isAutomated: false,
    ...given,
  };
}

export function exchangeOf(given: Partial<WireExchange>): WireExchange {
  return {
    exchangeId: "a95c9b48131d7e5f",
    sessionId: "5e55",
    sessionTitle: "Tile server port",
    agent: "claude-code",
    project: "/home/kim/atlas",
    cwd: "/home/kim/atlas",
    branch: "main",
    model: "",
    userText: "Which port?",
    userKind: "prompt",
    replyText: "8093.",
    replyFinalStart: 0,
    startedAt: TIME,
    endedAt: TIME,
    timeQuality: "exact",
    utcOffsetMinutes: null,
    status: "complete",
    isSuperseded: false,
    tools: [],
    flags: [],
    drawerIds: [],
    provenance: [],
    previousId: "",
    nextId: "",
    neighbours: [],
    ...given,
  };
}

/** A daemon at rest that holds 4,310 exchanges; `embedding` may be given in part. */
export function statusOf(given: Partial<Omit<StatusResult, "embedding">> & { readonly embedding?: Partial<WireEmbedding> } = {}): StatusResult {
  const { embedding, ...rest } = given;
  return {
    protocolVersion: 1,
    version: "0.1.0",
    pid: 4711,
    dataDir: "/home/kim/.local/share/palace",
    uptimeS: 98.2,
    startedAt: TIME,
    sessions: 170,
    exchanges: 4_310,
    exchangesSuperseded: 14,
    drawers: 6_000,
    vectors: 12_000,
    vectorsPending: 0,
    sources: { ok: 195 },
    sourcesPending: 0,
    linesSkipped: {},
    redactions: {},
    failures: {},
    watched: [],
    notifier: "inotify",
    model: "all-minilm-l6-v2-int8",
    modelState: "ready",
    databaseBytes: 14_490_272,
    rssBytes: 207_425_536,
    lastError: "",
    lastMinedAt: TIME,
    embedding: { isSwitching: false, coverage: [], textsPerS: 0, etaS: null, threads: 1, truncated: 0, modelLoadMs: null, isPaused: false, windowed: 0, ...embedding },
    ...rest,
  };
}

export function mineOf(given: Partial<MineResult>): MineResult {
  return {
    files: 1,
    filesFailed: 0,
    sessions: 0,
    exchangesAdded: 0,
    exchangesReplaced: 0,
    exchangesSuperseded: 0,
    drawersAdded: 0,
    drawersRemoved: 0,
    vectorsAdded: 0,
    linesRead: 0,
    linesSkipped: {},
    exchangesLeftOut: {},
    failures: {},
    filesSkipped: {},
    seconds: 0,
    secondsToVectors: 0,
    vectorsReason: "",
    ...given,
  };
}

export function forgetItemOf(exchangeId: string): WireForgetItem {
  return { exchangeId, sessionId: "5e55", agent: "claude-code", project: "/home/kim/atlas", startedAt: TIME, title: `Title of ${exchangeId}` };
}

export function forgetOf(ids: readonly string[], given: Partial<ForgetResult> = {}): ForgetResult {
  return { isDryRun: true, exchanges: ids.length, drawers: ids.length, items: ids.map(forgetItemOf), sourcesPending: 0, wipeDue: "", ...given };
}
