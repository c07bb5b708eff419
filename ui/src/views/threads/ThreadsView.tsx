export function ThreadsView() {
  return null;
}
