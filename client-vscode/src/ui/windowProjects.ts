/** The projects that the folders of this window belong to. */

import * as vscode from "vscode";

import { type Project, projectOf } from "../core/project";

/** The project of the folder that the active editor's file lies in, or of the window's first folder. */
export function projectInFront(): Project | undefined {
  const front = vscode.window.activeTextEditor?.document.uri;
  const own = front ? vscode.workspace.getWorkspaceFolder(front) : undefined;
  const folder = [own, ...folders()].find(isOnThisMachine);
  return folder ? projectOf(folder.uri.fsPath) : undefined;
}

/** The paths of all of them, each once; the first is "this project". */
export function windowProjects(): string[] {
  const paths = folders().filter(isOnThisMachine).map((one) => projectOf(one.uri.fsPath).path);
  return [...new Set(paths)]; // two folders of one repository are one project
}

function folders(): readonly vscode.WorkspaceFolder[] {
  return vscode.workspace.workspaceFolders ?? [];
}

/** Others are in no transcript. */
function isOnThisMachine(folder: vscode.WorkspaceFolder | undefined): folder is vscode.WorkspaceFolder {
  return folder?.uri.scheme === "file";
}
