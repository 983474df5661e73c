// Made by scripts/make_protocol.py from the daemon's own types (server/palace_daemon/rpc/wire*.py). Do not edit.

export const PROTOCOL_VERSION = 1;

/** What the daemon is, and what it can do. */
export interface HelloResult {
  readonly protocolVersion: number;
  readonly version: string;
  readonly methods: readonly string[];
  readonly events: readonly string[];
  readonly proof: string;
}

/** The first message over TCP; elsewhere a way to ask what the daemon can do. */
export interface HelloParams {
  readonly token?: string;
  readonly timeoutMs?: number;
}

/** Ranked hits, totals and freshness. */
export interface RecallResult {
  readonly hits: readonly WireHit[];
  readonly sessions: readonly WireSessionHits[];
  readonly totals: WireTotals;
  readonly freshness: WireFreshness;
  readonly tookMs: number;
  readonly isCut: boolean;
  readonly hitsLeftOut: number;
  readonly projectsNear: readonly string[];
}

/** One drawer that answers a query. */
export interface WireHit {
  readonly drawerId: string;
  readonly exchangeId: string;
  readonly sessionId: string;
  readonly sessionTitle: string;
  readonly project: string;
  readonly agent: string;
  readonly startedAt: string | null;
  readonly text: string;
  readonly path: string;
  readonly lineStart: number;
  readonly lineEnd: number;
  readonly score: number;
  readonly parts: Readonly<Record<string, number>>;
  readonly matchedTerms: readonly string[];
  readonly alsoIn: readonly WireAlsoIn[];
  readonly alsoInCount: number;
  readonly neighbours: readonly WireNeighbour[];
}

/** An exchange that says the same as a hit. */
export interface WireAlsoIn {
  readonly exchangeId: string;
  readonly sessionId: string;
  readonly startedAt: string | null;
  readonly path: string;
}

/** An exchange beside another in its session; of its texts the beginnings. */
export interface WireNeighbour {
  readonly exchangeId: string;
  readonly relation: number;
  readonly startedAt: string | null;
  readonly userText: string;
  readonly replyText: string;
}

/** A session that answers a query; it ranks by its best hit. */
export interface WireSessionHits {
  readonly sessionId: string;
  readonly title: string;
  readonly project: string;
  readonly agent: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly score: number;
  readonly hits: readonly WireHit[];
}

/** Drawers in scope, and those of them that share a word with the query. */
export interface WireTotals {
  readonly inScope: number;
  readonly matched: number;
}

/** How current and how complete an answer is. */
export interface WireFreshness {
  readonly sourcesPending: number;
  readonly vectorsPending: number;
  readonly drawers: number;
  readonly vectorsUsed: boolean;
  readonly vectorsReason: string;
  readonly model: string;
  readonly lastMinedAt: string | null;
  readonly coverage: readonly WireCoverage[];
}

/** How many of the stored texts have a vector of one model. */
export interface WireCoverage {
  readonly model: string;
  readonly space: string;
  readonly role: "answering" | "next" | "previous";
  readonly vectors: number;
  readonly texts: number;
}

/** A question and its filters; empty filters filter nothing. */
export interface RecallParams {
  readonly query: string;
  readonly project?: string;
  readonly agent?: string;
  readonly session?: string;
  readonly since?: string | number;
  readonly until?: string | number;
  readonly limit?: number;
  readonly now?: string | number;
  readonly maxChars?: number;
  readonly maxTokens?: number;
  readonly includeSuperseded?: boolean;
  readonly groupBySession?: boolean;
  readonly groupByExchange?: boolean;
  readonly neighbours?: number;
  readonly fold?: boolean;
  readonly timeoutMs?: number;
}

/** A stored exchange, whole; the result of ``palace/get``. */
export interface WireExchange {
  readonly exchangeId: string;
  readonly sessionId: string;
  readonly sessionTitle: string;
  readonly agent: string;
  readonly project: string;
  readonly cwd: string;
  readonly branch: string;
  readonly model: string;
  readonly userText: string;
  readonly userKind: string;
  readonly replyText: string;
  readonly replyFinalStart: number;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly timeQuality: string;
  readonly utcOffsetMinutes: number | null;
  readonly status: string;
  readonly isSuperseded: boolean;
  readonly tools: readonly WireToolUse[];
  readonly flags: readonly string[];
  readonly drawerIds: readonly string[];
  readonly provenance: readonly WireProvenance[];
  readonly previousId: string;
  readonly nextId: string;
  readonly neighbours: readonly WireNeighbour[];
}

/** One tool call inside a reply. */
export interface WireToolUse {
  readonly name: string;
  readonly target: string;
}

/** One place in which an exchange stands. */
export interface WireProvenance {
  readonly path: string;
  readonly lineStart: number;
  readonly lineEnd: number;
  readonly byteStart: number;
  readonly byteEnd: number;
  readonly isOwner: boolean;
}

/** Names an exchange by its own id or by the id of one of its drawers. */
export interface GetParams {
  readonly id: string;
  readonly neighbours?: number;
  readonly timeoutMs?: number;
}

/** Sessions, newest first. */
export interface SessionsResult {
  readonly sessions: readonly WireSession[];
}

/** A stored session in a list. */
export interface WireSession {
  readonly sessionId: string;
  readonly agent: string;
  readonly project: string;
  readonly title: string;
  readonly parentSessionId: string;
  readonly relation: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly exchanges: number;
  readonly isAutomated: boolean;
}

/** One session's exchanges in order; the result of ``palace/sessions`` with a ``sessionId``. */
export interface TimelineResult {
  readonly sessionId: string;
  readonly exchanges: readonly WireExchange[];
}

/** Filters the list of sessions, or names one session whose exchanges are wanted. */
export interface SessionsParams {
  readonly sessionId?: string;
  readonly agent?: string;
  readonly project?: string;
  readonly since?: string | number;
  readonly limit?: number;
  readonly offset?: number;
  readonly timeoutMs?: number;
}

/** Projects, the one with the newest exchange first. */
export interface ProjectsResult {
  readonly projects: readonly WireProject[];
}

/** What recall can find of a project, of its notes as well; what belongs to none has an empty path. */
export interface WireProject {
  readonly path: string;
  readonly name: string;
  readonly sessions: number;
  readonly exchanges: number;
  readonly agents: readonly string[];
  readonly newestAt: string | null;
}

/** Pages through the list of projects. */
export interface ProjectsParams {
  readonly limit?: number;
  readonly offset?: number;
  readonly timeoutMs?: number;
}

/** The known transcript files, those that failed first. */
export interface SourcesResult {
  readonly sources: readonly WireSource[];
}

/** A transcript file in a list. */
export interface WireSource {
  readonly path: string;
  readonly agent: string;
  readonly state: string;
  readonly sizeBytes: number;
  readonly readBytes: number;
  readonly exchanges: number;
  readonly linesSkipped: Readonly<Record<string, number>>;
  readonly error: string;
  readonly machine: string;
}

/** Filters the list of transcript files. */
export interface SourcesParams {
  readonly agent?: string;
  readonly state?: "" | "failed" | "gone" | "ok" | "pending" | "skipped";
  readonly timeoutMs?: number;
}

/** What the daemon holds and does. */
export interface StatusResult {
  readonly protocolVersion: number;
  readonly version: string;
  readonly pid: number;
  readonly dataDir: string;
  readonly uptimeS: number;
  readonly startedAt: string | null;
  readonly sessions: number;
  readonly exchanges: number;
  readonly exchangesSuperseded: number;
  readonly drawers: number;
  readonly vectors: number;
  readonly vectorsPending: number;
  readonly sources: Readonly<Record<string, number>>;
  readonly sourcesPending: number;
  readonly linesSkipped: Readonly<Record<string, number>>;
  readonly redactions: Readonly<Record<string, number>>;
  readonly failures: Readonly<Record<string, string>>;
  readonly watched: readonly WireWatched[];
  readonly notifier: string;
  readonly model: string;
  readonly modelState: string;
  readonly databaseBytes: number;
  readonly rssBytes: number;
  readonly lastError: string;
  readonly lastMinedAt: string | null;
  readonly embedding: WireEmbedding;
}

/** A directory that the daemon watches, or would watch if it existed. */
export interface WireWatched {
  readonly path: string;
  readonly agent: string;
  readonly origin: string;
  readonly exists: boolean;
  readonly files: number;
  readonly sizeBytes: number;
  readonly foundAt: string | null;
}

/** How the stored texts get their vectors, and how far that is. */
export interface WireEmbedding {
  readonly isSwitching: boolean;
  readonly coverage: readonly WireCoverage[];
  readonly textsPerS: number;
  readonly etaS: number | null;
  readonly threads: number;
  readonly truncated: number;
  readonly modelLoadMs: number | null;
  readonly isPaused: boolean;
  readonly windowed: number;
}

/** Takes nothing. */
export interface NoParams {
  readonly timeoutMs?: number;
}

/** What one mining run did; also the parameters of ``palace/didMine``. */
export interface MineResult {
  readonly files: number;
  readonly filesFailed: number;
  readonly sessions: number;
  readonly exchangesAdded: number;
  readonly exchangesReplaced: number;
  readonly exchangesSuperseded: number;
  readonly drawersAdded: number;
  readonly drawersRemoved: number;
  readonly vectorsAdded: number;
  readonly linesRead: number;
  readonly linesSkipped: Readonly<Record<string, number>>;
  readonly exchangesLeftOut: Readonly<Record<string, number>>;
  readonly failures: Readonly<Record<string, string>>;
  readonly filesSkipped: Readonly<Record<string, string>>;
  readonly seconds: number;
  readonly secondsToVectors: number;
  readonly vectorsReason: string;
}

/** Names what to mine; no path means everything that is watched. */
export interface MineParams {
  readonly paths?: readonly string[];
  readonly wait?: boolean;
  readonly newest?: number;
  readonly workDoneToken?: string | number;
  readonly timeoutMs?: number;
}

/** What is forgotten now, or would be: the first thousand are named, oldest first. */
export interface ForgetResult {
  readonly isDryRun: boolean;
  readonly exchanges: number;
  readonly drawers: number;
  readonly items: readonly WireForgetItem[];
  readonly sourcesPending: number;
  readonly wipeDue: string;
}

/** One exchange that goes. */
export interface WireForgetItem {
  readonly exchangeId: string;
  readonly sessionId: string;
  readonly agent: string;
  readonly project: string;
  readonly startedAt: string | null;
  readonly title: string;
}

/** What to forget: the exchanges that every selector given here names. */
export interface ForgetParams {
  readonly drawers?: readonly string[];
  readonly exchanges?: readonly string[];
  readonly sessions?: readonly string[];
  readonly project?: string;
  readonly source?: string;
  readonly agent?: string;
  readonly since?: string | number;
  readonly until?: string | number;
  readonly query?: string;
  readonly limit?: number;
  readonly dryRun?: boolean;
  readonly timeoutMs?: number;
}

/** The note that holds the text now, and whether there was none before. */
export interface RememberResult {
  readonly note: WireNote;
  readonly isNew: boolean;
}

/** A note. Its id is that of an exchange, too: ``palace/get`` takes it. */
export interface WireNote {
  readonly noteId: string;
  readonly text: string;
  readonly project: string;
  readonly tags: readonly string[];
  readonly author: string;
  readonly createdAt: string | null;
  readonly editedAt: string | null;
  readonly supersededBy: string;
}

/** A text to remember. */
export interface RememberParams {
  readonly text: string;
  readonly project?: string;
  readonly tags?: readonly string[];
  readonly author?: string;
  readonly now?: string | number;
  readonly timeoutMs?: number;
}

/** Notes, newest first. */
export interface NotesResult {
  readonly notes: readonly WireNote[];
}

/** Lists notes, replaces the text of one, or puts a new one in the place of one. */
export interface NotesParams {
  readonly action?: "edit" | "list" | "supersede";
  readonly id?: string;
  readonly text?: string;
  readonly now?: string | number;
  readonly project?: string;
  readonly tags?: readonly string[];
  readonly all?: boolean;
  readonly limit?: number;
  readonly offset?: number;
  readonly timeoutMs?: number;
}

/** What was written: lines by type. */
export interface ExportResult {
  readonly path: string;
  readonly records: Readonly<Record<string, number>>;
  readonly sizeBytes: number;
  readonly seconds: number;
}

/** Names the file, by an absolute path: the daemon does not know the caller's directory. */
export interface PortParams {
  readonly path: string;
  readonly workDoneToken?: string | number;
  readonly timeoutMs?: number;
}

/** What was read (lines by type), and what that changed. */
export interface ImportResult {
  readonly records: Readonly<Record<string, number>>;
  readonly changes: Readonly<Record<string, number>>;
  readonly malformed: number;
  readonly problems: readonly WireProblem[];
  readonly isComplete: boolean;
  readonly seconds: number;
  readonly wipeDue: string;
}

/** A line that could not be used; lines count from 1. */
export interface WireProblem {
  readonly line: number;
  readonly reason: string;
}

/** The known models. */
export interface ModelsResult {
  readonly models: readonly WireModel[];
  readonly embedding: WireEmbedding | null;
}

/** A model in the registry, installed or not. */
export interface WireModel {
  readonly modelId: string;
  readonly dim: number;
  readonly maxTokens: number;
  readonly isInstalled: boolean;
  readonly isActive: boolean;
  readonly path: string;
  readonly sizeBytes: number;
  readonly note: string;
}

/** Lists the models, and chooses one. */
export interface ModelsParams {
  readonly use?: string;
  readonly timeoutMs?: number;
}

/** Whether mining and embedding rest now. */
export interface PauseResult {
  readonly isPaused: boolean;
}

/** What is sent from now on. */
export interface SubscribeResult {
  readonly events: readonly ("didChangeStatus" | "didMine")[];
}

/** Which notifications are wanted from now on; each call takes the place of the one before. */
export interface SubscribeParams {
  readonly events: readonly ("didChangeStatus" | "didMine")[];
  readonly timeoutMs?: number;
}

/** Says that the daemon is about to stop. */
export interface StopResult {
  readonly stopping: boolean;
}

/** ``initializationOptions`` of ``initialize``, for editors: ``palace/hello`` and ``palace/subscribe`` in one. */
export interface InitializationOptions {
  readonly token?: string;
  readonly events?: readonly ("didChangeStatus" | "didMine")[];
}

/** ``value`` of ``$/progress``: LSP's work-done fields, and the exact counts beside them. */
export interface ProgressValue {
  readonly kind: "begin" | "end" | "report";
  readonly title?: string;
  readonly message?: string;
  readonly percentage?: number | null;
  readonly cancellable?: boolean;
  readonly stage?: string;
  readonly done?: number | null;
  readonly total?: number | null;
  readonly unit?: string;
  readonly etaS?: number | null;
}

/** ``data`` of an error: a stable word, what to do, and which parameter is at fault. */
export interface ErrorData {
  readonly kind: string;
  readonly hint?: string;
  readonly path?: string;
}

/** Every request, with its parameters and its result. */
export interface Methods {
  readonly "palace/hello": { readonly params: HelloParams; readonly result: HelloResult };
  readonly "palace/recall": { readonly params: RecallParams; readonly result: RecallResult };
  readonly "palace/get": { readonly params: GetParams; readonly result: WireExchange };
  readonly "palace/sessions": { readonly params: SessionsParams; readonly result: SessionsResult | TimelineResult };
  readonly "palace/projects": { readonly params: ProjectsParams; readonly result: ProjectsResult };
  readonly "palace/sources": { readonly params: SourcesParams; readonly result: SourcesResult };
  readonly "palace/status": { readonly params: NoParams; readonly result: StatusResult };
  readonly "palace/mine": { readonly params: MineParams; readonly result: MineResult };
  readonly "palace/forget": { readonly params: ForgetParams; readonly result: ForgetResult };
  readonly "palace/remember": { readonly params: RememberParams; readonly result: RememberResult };
  readonly "palace/notes": { readonly params: NotesParams; readonly result: NotesResult | RememberResult };
  readonly "palace/export": { readonly params: PortParams; readonly result: ExportResult };
  readonly "palace/import": { readonly params: PortParams; readonly result: ImportResult };
  readonly "palace/models": { readonly params: ModelsParams; readonly result: ModelsResult };
  readonly "palace/pause": { readonly params: NoParams; readonly result: PauseResult };
  readonly "palace/resume": { readonly params: NoParams; readonly result: PauseResult };
  readonly "palace/subscribe": { readonly params: SubscribeParams; readonly result: SubscribeResult };
  readonly "palace/stop": { readonly params: NoParams; readonly result: StopResult };
}

/** What subscribers are told. */
export interface Notifications {
  readonly "palace/didMine": MineResult;
  readonly "palace/didChangeStatus": StatusResult;
}
