// Daemons that start and stop on one folder at the same time: there are never two.
#include <atomic>

#include <gtest/gtest.h>

#include "arena_process.h"

namespace sluice::crash {
namespace {

TEST(DaemonRace, NeverTwoOnOneArenaHoweverManyStartAndStop) {
  struct Board {
    std::atomic<int> serving, most, starts;
    std::atomic<bool> stop;
  };
  Shared<Board> board;
  const std::string directory = "/dev/shm/sluice-race-" + std::to_string(::getpid());
  std::vector<Child> processes;
  for (int i = 0; i < 4; ++i) {
    processes.emplace_back([&] {
      while (!board->stop) {
        auto daemon = store::Daemon::open(
            {.directory = directory, .arena_bytes = 64u << 10, .objects_max = 1, .touch = false});
        if (!daemon) continue;  // another one holds the lock, or has just removed the folder
        const int serving = ++board->serving;
        if (serving > board->most) board->most = serving;
        ++board->starts;
        if (serving > 1) board->stop = true;
        std::this_thread::yield();
        --board->serving;
        (*daemon)->stop();
        (*daemon)->run();  // a clean stop: removes the folder
      }
      return 0;
    });
  }
  eventually([&] { return board->starts >= (soak() ? 20'000 : 150) || board->stop.load(); },
             seconds(soak() ? 600 : 10));
  EXPECT_GE(board->starts, 10);
  board->stop = true;
  for (Child& process : processes) EXPECT_EQ(process.wait(), 0);
  EXPECT_EQ(board->most, 1);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace sluice::crash
