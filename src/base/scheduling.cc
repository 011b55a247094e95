#include "base/scheduling.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

namespace sluice {
namespace {

constexpr std::uint64_t kShortSliceNs = kNsPerMs / 10;

// The kernel's struct sched_attr in its first version; its header does not go with the C library's.
struct Attributes {
  std::uint32_t size = sizeof(Attributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;  // with the usual policies: the slice
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(Attributes) == 48);

std::optional<Attributes> read_attributes() noexcept {
  Attributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return std::nullopt;
  return attributes;
}

}  // namespace

std::optional<Scheduling> scheduling_of_this_thread() noexcept {
  const auto attributes = read_attributes();
  if (!attributes) return std::nullopt;
  return Scheduling{.policy = attributes->policy,
                    .niceness = attributes->nice,
                    .slice_ns = attributes->runtime_ns};
}

bool ask_for_short_slices() noexcept {
  auto attributes = read_attributes();
  const bool usual =
      attributes && (attributes->policy == SCHED_OTHER || attributes->policy == SCHED_BATCH);
  if (!usual) return false;
  attributes->runtime_ns = kShortSliceNs;
  if (::syscall(SYS_sched_setattr, 0, &*attributes, 0) != 0) return false;
  const auto given = scheduling_of_this_thread();
  return given && given->slice_ns == kShortSliceNs;
}

}  // namespace sluice
