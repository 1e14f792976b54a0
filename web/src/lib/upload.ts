import { ApiError, request, sendBy } from "./api.ts";
import { session } from "./session.ts";

const STOPPED = "The upload was stopped.";

export interface FileObject {
  readonly id: string;
  readonly filename: string;
  readonly bytes: number;
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly purpose: string;
  readonly status: string;
}

/** Uploads a file; `onProgress` gets the part of the body that is sent, from 0 to 1. */
export async function uploadFile(
  file: File,
  purpose: string,
  onProgress: (part: number) => void,
  signal: AbortSignal,
): Promise<FileObject> {
  const form = new FormData();
  form.set("purpose", purpose);
  form.set("file", file);
  const response = await sendBy(() => sendForm(form, onProgress, signal));
  return (await response.json()) as FileObject;
}

/** Only this kind of request reports its progress while the body is sent. */
function sendForm(
  form: FormData,
  onProgress: (part: number) => void,
  signal: AbortSignal,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    const stop = () => call.abort();
    const fail = (message: string) => reject(new ApiError(message));
    call.open("POST", "/v1/files");
    const csrf = session.value?.csrf;
    if (csrf != null) call.setRequestHeader("antiphon-csrf", csrf);
    call.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 0 : loaded / total);
    call.onload = () => resolve(responseOf(call));
    call.onerror = () => fail("The upload broke off. Check that the server runs, then try again.");
    call.onabort = () => fail(STOPPED);
    call.onloadend = () => signal.removeEventListener("abort", stop);
    if (signal.aborted) return fail(STOPPED);
    signal.addEventListener("abort", stop);
    call.send(form);
  });
}

function responseOf(call: XMLHttpRequest): Response {
  const requestId = call.getResponseHeader("x-request-id");
  const headers = requestId === null ? {} : { "x-request-id": requestId };
  return new Response(call.responseText, { status: call.status, headers });
}

/** Saves a body under a name: the browser cannot send the headers of a session when it follows a link. */
export function saveAs(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function deleteFile(id: string): Promise<unknown> {
  return request(`/v1/files/${encodeURIComponent(id)}`, { method: "DELETE" });
}
