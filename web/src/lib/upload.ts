import { ApiError, request } from "./api.ts";
import { session } from "./session.ts";

export interface FileObject {
  readonly id: string;
  readonly filename: string;
  readonly bytes: number;
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly purpose: string;
  readonly status: string;
}

/** Uploads a file. Only this kind of request reports its progress, from 0 to 1, while the body is sent. */
export function uploadFile(
  file: File,
  purpose: string,
  onProgress: (part: number) => void,
  signal?: AbortSignal,
): Promise<FileObject> {
  const form = new FormData();
  form.set("purpose", purpose);
  form.set("file", file);
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    call.open("POST", "/v1/files");
    const csrf = session.value?.csrf;
    if (csrf != null) call.setRequestHeader("antiphon-csrf", csrf);
    call.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 0 : loaded / total);
    call.onload = () => {
      if (call.status === 200) resolve(JSON.parse(call.responseText) as FileObject);
      else reject(uploadError(call));
    };
    call.onerror = () =>
      reject(new ApiError("The upload broke off. Check that the server runs, then try again."));
    call.onabort = () => reject(new ApiError("The upload was stopped."));
    signal?.addEventListener("abort", () => call.abort());
    call.send(form);
  });
}

function uploadError(call: XMLHttpRequest): ApiError {
  const requestId = call.getResponseHeader("x-request-id");
  try {
    const { error } = JSON.parse(call.responseText) as {
      error: { message: string; type: string; param: string | null; code: string | null };
    };
    return new ApiError(error.message, { ...error, status: call.status, requestId });
  } catch {
    return new ApiError(`The server answered with status ${call.status}.`, {
      status: call.status,
      requestId,
    });
  }
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
