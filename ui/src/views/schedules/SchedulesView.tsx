export function SchedulesView() {
  return null;
}
