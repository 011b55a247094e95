#include "base/scheduling.h"

#include <cstdio>
#include <thread>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace sluice {
namespace {

bool kernel_has_slices() {
  utsname name{};
  EXPECT_EQ(::uname(&name), 0);
  int major = 0;
  int minor = 0;
  EXPECT_EQ(std::sscanf(name.release, "%d.%d", &major, &minor), 2);
  return major > 6 || (major == 6 && minor >= 12);
}

TEST(Scheduling, ShortSlicesAreGivenToTheThreadThatAsksAndToNoOther) {
  const auto before = scheduling_of_this_thread();
  ASSERT_TRUE(before);
  bool given = false;
  std::optional<Scheduling> after;
  std::thread([&] {
    given = ask_for_short_slices();
    after = scheduling_of_this_thread();
  }).join();
  EXPECT_EQ(given, kernel_has_slices());
  ASSERT_TRUE(after);
  EXPECT_EQ(after->slice_ns, given ? 100'000u : before->slice_ns);
  EXPECT_EQ(scheduling_of_this_thread()->slice_ns, before->slice_ns);
}

TEST(Scheduling, ShortSlicesLeavePolicyAndNicenessAsTheyAre) {
  std::thread([] {
    const auto tid = static_cast<id_t>(::syscall(SYS_gettid));
    ASSERT_EQ(::setpriority(PRIO_PROCESS, tid, 3), 0);
    const auto before = scheduling_of_this_thread();
    ASSERT_TRUE(before);
    ask_for_short_slices();
    const auto after = scheduling_of_this_thread();
    ASSERT_TRUE(after);
    EXPECT_EQ(after->niceness, 3);
    EXPECT_EQ(after->policy, before->policy);
  }).join();
}

}  // namespace
}  // namespace sluice
