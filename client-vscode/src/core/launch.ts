/** Starting the shared daemon, and saying in words why it did not start. */

import { PalaceError } from "./errors";
import type { Environment } from "./places";
import { rootOf, run as runProgram, type Run } from "./processes";

/** The command line waits 20 s for a daemon to listen; this is for one that hangs before that. */
const LAUNCH_MS = 60_000;
const WORDS_CHARS_MAX = 2_000;

export interface LaunchOptions {
  /** The daemon's command line up to its subcommand, with its data directory. */
  readonly commandLine: readonly string[];
  readonly env?: Environment;
  readonly signal?: AbortSignal | undefined;
  readonly run?: Run;
}

/**
 * Has a daemon of this version run, and returns once it takes connections.
 *
 * `--stdio` is the command whose work this is: it joins the running daemon or starts one, asks an older one to leave,
 * and ends at once because there is nothing on its input. (`status` starts none, `restart` would end another window's.)
 * The daemon is the leader of a session of its own: it outlives that command and the editor. It fetches a model that
 * it lacks later, in the background: that delays nothing here.
 *
 * @throws PalaceError `notStarted` with the daemon's own words, `deadline`, or `cancelled`.
 */
export async function launch(options: LaunchOptions): Promise<void> {
  const command = [...options.commandLine, "--stdio"];
  const ran = await (options.run ?? runProgram)(command, {
    cwd: rootOf(command),
    env: options.env,
    signal: options.signal,
    limitMs: LAUNCH_MS,
  });
  if (ran.code !== 0) throw launchError(ran.stderr, ran.code);
}

/** The error for what the command line said: its last complaint, and the hint in the parentheses behind it. */
export function launchError(stderr: string, code: number | null): PalaceError {
  const said = stderr.trim();
  const marked = said.lastIndexOf("palace-daemon: ");
  if (marked < 0) {
    const line = said.split("\n").pop()?.trim() ?? "";
    const why = line || (code === null ? "it was ended by the system" : `exit code ${code}`);
    return new PalaceError(`the daemon did not start: ${why.slice(0, WORDS_CHARS_MAX)}`, "notStarted", "the logs may say more");
  }
  const words = said.slice(marked + "palace-daemon: ".length, marked + WORDS_CHARS_MAX).trim();
  const [, message, hint] = /^([^]*?)(?: \(([^()]*(?:\([^()]*\)[^()]*)*)\))?$/.exec(words) ?? [];
  const whole = message ?? words;
  return new PalaceError(whole.includes('did not start') ? whole : `the daemon did not start: ${whole}`, "notStarted", hint ?? "");
}
