#include "sluiced/exposition.h"

#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace sluice::daemon {
namespace {

ArenaStats sample() {
  ArenaStats stats;
  stats.arena_bytes = 1 << 20;
  stats.published_total = 7;
  stats.kinds.resize(1);
  stats.kinds[0].puts = 5;
  return stats;
}

TEST(Exposition, CountersAndGaugesCarryTheirValueAndType) {
  const std::string text = prometheus_text(sample(), {}, {.ready = true});
  EXPECT_NE(text.find("# TYPE sluice_published_total counter"), std::string::npos) << text;
  EXPECT_NE(text.find("sluice_published_total 7"), std::string::npos);
  EXPECT_NE(text.find("sluice_arena_bytes 1048576"), std::string::npos);
  EXPECT_NE(text.find("sluice_kind_puts_total{kind=\"encoder_output\"} 5"), std::string::npos);
  EXPECT_NE(text.find("sluice_ready 1"), std::string::npos);
}

TEST(Exposition, EveryFamilyIsDeclaredOnce) {
  std::vector<ClientInfo> clients(3);
  for (ClientInfo& client : clients) client.alive = true;
  clients[2].label = "other";
  std::istringstream lines(prometheus_text(sample(), clients, {}));
  std::set<std::string> declared;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      EXPECT_TRUE(declared.insert(line).second) << line;
    }
  }
  EXPECT_GT(declared.size(), 30u);
}

TEST(Exposition, ProcessesOfOneLabelAreOneSeriesAndTheDeadAreLeftOut) {
  std::vector<ClientInfo> clients(3);
  for (ClientInfo& client : clients) {
    client.alive = true;
    client.label = "encoder \"a\"\n";
    client.gets = 10;
  }
  clients[2].alive = false;
  const std::string text = prometheus_text(sample(), clients, {});
  EXPECT_NE(text.find("sluice_client_gets{client=\"encoder \\\"a\\\"\\n\"} 20"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace sluice::daemon
