/** The command that installs the daemon into an environment of the extension's own. */

import * as vscode from "vscode";

import { PalaceError } from "../core/errors";
import { packageOf } from "../core/broughtPackage";
import { install, type Installed, type Step } from "../core/installing";
import { findInstallers, type Probe } from "../core/python";
import { findOptions, told } from "./daemon";
import type { Parts } from "./parts";
import { rising } from "./telling";

const STEPS: Readonly<Record<Step, { readonly words: string; readonly percent: number }>> = {
  venv: { words: "Making the environment", percent: 0 },
  libraries: { words: "Installing libraries", percent: 10 },
  model: { words: "Fetching the model", percent: 75 },
};

let running: Promise<void> | undefined;
/** What was begun on the disk. */
let installing: Promise<unknown> | undefined;

/** Registers the command; the window's end gives an installation up: nobody would put what it made in its place. */
export function registerInstallation(parts: Parts): vscode.Disposable {
  const closing = new AbortController();
  return vscode.Disposable.from(
    parts.command("palace.installDaemon", () => told(parts, () => installDaemon(parts, closing.signal))),
    new vscode.Disposable(() => {
      closing.abort();
    }),
  );
}

/** Asks what there is to ask, installs with progress, and starts the daemon. One at a time in a window. */
function installDaemon(parts: Parts, closing: AbortSignal): Promise<void> {
  running ??= asked(parts, closing).finally(() => {
    running = undefined;
  });
  return running;
}

/** Resolved when nothing is being installed any more, and what was given up is removed. */
export async function installationEnded(): Promise<void> {
  await installing?.catch(() => undefined);
}

async function asked(parts: Parts, closing: AbortSignal): Promise<void> {
  const what = packageOf(parts.context.extensionPath);
  if (!what) {
    throw new PalaceError("this extension was packaged without the daemon", "install", "install the package palace-daemon yourself and name its Python in the setting palace.python");
  }
  if (!(await agreesToClear(parts))) return;
  const options = await findOptions(parts.context, parts.settings());
  const python = await chosen(await vscode.window.withProgress({ location: vscode.ProgressLocation.Window, title: "Looking for Python" }, () => findInstallers(options)));
  if (!python) return;
  parts.log.info(`installing with ${python.executable} (Python ${python.pythonVersion})`);
  const begunAt = Date.now();
  const giveUp = new AbortController();
  const installed = await vscode.window.withProgress(
    { location: vscode.ProgressLocation.Notification, title: "Palace", cancellable: true },
    (progress, token) => {
      token.onCancellationRequested(() => {
        giveUp.abort();
      });
      const made = install({
        python: python.executable,
        storage: options.storage,
        what,
        ...(options.env ? { env: options.env } : {}),
        signal: AbortSignal.any([giveUp.signal, closing]),
        onStep: reporting(progress),
        log: (words) => {
          parts.log.error(words);
        },
      });
      installing = made;
      return made;
    },
  );
  if (closing.aborted) return;
  parts.log.info(`installed palace-daemon ${installed.python.daemonVersion ?? ""} in ${Date.now() - begunAt} ms`);
  await used(parts, installed);
}

/** Whether the setting that would keep the new environment from being used may go. */
async function agreesToClear(parts: Parts): Promise<boolean> {
  const named = parts.settings().python;
  if (!named) return true;
  const go = "Install and Clear the Setting";
  const detail = `It names ${named}, and is used before any other Python. To use the daemon that is installed now, the setting has to be empty.`;
  return (await vscode.window.showWarningMessage("The setting palace.python names a Python.", { modal: true, detail }, go)) === go;
}

async function chosen(installers: readonly Probe[]): Promise<Probe | undefined> {
  if (installers.length === 0) {
    throw new PalaceError(
      "no Python 3.11 or later with its module venv was found",
      "install",
      "install one (on Debian and Ubuntu: sudo apt install python3-venv), or name one in the setting palace.python, then run the command again",
    );
  }
  if (installers.length === 1) return installers[0];
  const items = installers.map((python) => ({ label: `Python ${python.pythonVersion}`, description: python.executable, python }));
  const picked = await vscode.window.showQuickPick(items, { placeHolder: "Which Python makes the environment?", matchOnDescription: true });
  return picked?.python;
}

function reporting(progress: vscode.Progress<{ message?: string; increment?: number }>): (step: Step, detail: string) => void {
  const rise = rising(progress);
  return (step, detail) => {
    const { words, percent } = STEPS[step];
    rise(detail ? `${words}: ${detail}` : words, percent);
  };
}

async function used(parts: Parts, installed: Installed): Promise<void> {
  if (parts.settings().python) {
    await vscode.workspace.getConfiguration("palace").update("python", undefined, vscode.ConfigurationTarget.Global);
  }
  if (installed.modelProblem) {
    parts.log.warn(`the model is not there yet: ${installed.modelProblem}`);
    void vscode.window.showWarningMessage("Palace is installed, but without its model. Recall finds by words alone until the daemon has fetched it, which it tries again by itself.");
  }
  try {
    await parts.palace.restart();
  } catch (error) {
    const { kind } = parts.palace.state;
    if (kind !== "failed" && kind !== "missing") throw error; // those are told as states, with buttons
  }
}
