/**
 * What the editor may call from the moment of activation: commands, the documents of exchanges, and what the chat is given
 * (chat.ts). There is only a name to each; what answers is loaded when it is called for.
 */

import * as vscode from "vscode";

import type { SCHEME } from "../core/exchangeDocument";
import type { ExchangeDocuments } from "./exchanges";
import type { Loader } from "./loader";

/** The value is repeated, and held to that of its type, since to import it would be to load it. */
const EXCHANGES: typeof SCHEME = "palace-exchange";

/** Registers the commands of package.json. One that another extension has already costs itself, and is told in the log. */
export function registerCommands(loader: Loader, context: vscode.ExtensionContext, log: vscode.LogOutputChannel): vscode.Disposable {
  const { contributes } = context.extension.packageJSON as { readonly contributes: { readonly commands: readonly { readonly command: string }[] } };
  const registered = contributes.commands.flatMap(({ command }) => {
    try {
      return [vscode.commands.registerCommand(command, (argument: unknown) => loader.run(command, argument))];
    } catch (error) {
      log.error(`The command ${command} cannot be registered: ${String(error)}`);
      return [];
    }
  });
  return vscode.Disposable.from(...registered);
}

/** Registers the documents that show exchanges: the editor may bring one back with the window. */
export function registerDocuments(loader: Loader): vscode.Disposable {
  const changed = new vscode.EventEmitter<vscode.Uri>();
  let listening: vscode.Disposable | undefined;
  const documents = async (): Promise<ExchangeDocuments> => {
    const { documents: loaded } = await loader.onUse();
    listening ??= loaded.onDidChange((uri) => {
      changed.fire(uri);
    });
    return loaded;
  };
  const provider: vscode.TextDocumentContentProvider & vscode.DocumentLinkProvider = {
    onDidChange: changed.event,
    provideTextDocumentContent: async (uri) => await (await documents()).provideTextDocumentContent(uri),
    provideDocumentLinks: async (document) => (await documents()).provideDocumentLinks(document),
  };
  return vscode.Disposable.from(
    changed,
    vscode.workspace.registerTextDocumentContentProvider(EXCHANGES, provider),
    vscode.languages.registerDocumentLinkProvider({ scheme: EXCHANGES }, provider),
    new vscode.Disposable(() => listening?.dispose() as unknown),
  );
}
