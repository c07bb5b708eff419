export function InboxView() {
  return null;
}
