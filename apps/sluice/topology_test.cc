#include "topology.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

constexpr const char* kGood = R"(
log-dir = "logs"
ready-timeout = "90s"

[arena]
name = "demo"
size = "256MiB"

[engine-defaults]
model = "/models/m"
python = "/venv/bin/python"
args = ["--dtype", "bfloat16"]
env = { OMP_NUM_THREADS = "1" }

[[engine]]
name = "encoder"
role = "encoder"
port = 8101
connector = { on_failure = "fail", soft_pin_modalities = ["video"] }

[[engine]]
name = "pd"
role = "prefill_decode"
port = 8102
tp = 2
args = ["--max-model-len", "4096"]
env = { OMP_NUM_THREADS = "2", EXTRA = "x" }

[[engine]]
name = "alone"
role = "colocated"
port = 8103
)";

Topology good() {
  auto topology = parse_topology(kGood, "t.toml");
  EXPECT_TRUE(topology.has_value()) << topology.error().message;
  return std::move(*topology);
}

std::string after(const std::vector<std::string>& words, const std::string& flag) {
  const auto found = std::ranges::find(words, flag);
  return found == words.end() || found + 1 == words.end() ? "" : *(found + 1);
}

TEST(Topology, DefaultsAreSharedAndAnEnginesOwnWordsAreAdded) {
  const Topology topology = good();
  ASSERT_EQ(topology.engines.size(), 3u);
  EXPECT_EQ(topology.arena_name, "demo");
  EXPECT_EQ(topology.ready_timeout, std::chrono::seconds(90));
  const EngineSpec& pd = topology.engines[1];
  EXPECT_EQ(pd.python, "/venv/bin/python");
  EXPECT_EQ(pd.args, (std::vector<std::string>{"--dtype", "bfloat16", "--max-model-len", "4096"}));
  EXPECT_EQ(pd.environment.at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(topology.engines[0].environment.at("OMP_NUM_THREADS"), "1");
}

TEST(Topology, AnEnginesCommandCarriesItsRoleAndTheArena) {
  const Topology topology = good();
  const auto encoder = engine_command(topology.engines[0], topology);
  EXPECT_EQ(encoder[0], "/venv/bin/python");
  EXPECT_EQ(after(encoder, "-m"), "vllm.entrypoints.openai.api_server");
  EXPECT_EQ(after(encoder, "--model"), "/models/m");
  EXPECT_EQ(after(encoder, "--port"), "8101");
  EXPECT_EQ(after(encoder, "--host"), "127.0.0.1");
  const auto transfer = nlohmann::json::parse(after(encoder, "--ec-transfer-config"));
  EXPECT_EQ(transfer["ec_role"], "ec_producer");
  EXPECT_EQ(transfer["ec_connector"], "SluiceECConnector");
  EXPECT_EQ(transfer["ec_connector_module_path"], "sluice.vllm");
  EXPECT_EQ(transfer["ec_connector_extra_config"]["arena"], "demo");
  EXPECT_EQ(transfer["ec_connector_extra_config"]["on_failure"], "fail");
  const auto pd = engine_command(topology.engines[1], topology);
  EXPECT_EQ(after(pd, "--tensor-parallel-size"), "2");
  const auto alone = engine_command(topology.engines[2], topology);
  EXPECT_EQ(std::ranges::count(alone, "--ec-transfer-config"), 0);
}

TEST(Topology, PrefillAndDecodeGetBothConnectorsAndNeverFailARequestForALostHandOff) {
  const auto topology = parse_topology(R"(
[engine-defaults]
model = "/models/m"
kv-connector = { layers_per_group = 2 }
[[engine]]
name = "p"
role = "prefill"
port = 8101
[[engine]]
name = "d"
role = "decode"
port = 8102
)",
                                       "t.toml");
  ASSERT_TRUE(topology.has_value()) << topology.error().message;
  const auto prefill = engine_command(topology->engines[0], *topology);
  const auto decode = engine_command(topology->engines[1], *topology);
  const auto handed = nlohmann::json::parse(after(prefill, "--kv-transfer-config"));
  const auto taken = nlohmann::json::parse(after(decode, "--kv-transfer-config"));
  EXPECT_EQ(handed["kv_role"], "kv_producer");
  EXPECT_EQ(taken["kv_role"], "kv_consumer");
  EXPECT_EQ(taken["kv_load_failure_policy"], "recompute");
  EXPECT_EQ(taken["kv_connector_extra_config"]["layers_per_group"], 2);
  EXPECT_EQ(taken["kv_connector_extra_config"]["arena"], "default");
  for (const auto& command : {prefill, decode}) {
    const auto transfer = nlohmann::json::parse(after(command, "--ec-transfer-config"));
    EXPECT_EQ(transfer["ec_role"], "ec_consumer");
  }
}

TEST(Topology, TheProxyLearnsOfEveryEngineAndKeepsItsOwnSettings) {
  const auto topology = parse_topology(std::string(kGood) + R"(
[proxy]
port = 8000
threads = 2
on-failure = "fail"
)",
                                       "t.toml");
  ASSERT_TRUE(topology.has_value()) << topology.error().message;
  const auto words = proxy_arguments(*topology, "logs/engine.token");
  EXPECT_EQ(after(words, "--port"), "8000");
  EXPECT_EQ(after(words, "--host"), "127.0.0.1");
  EXPECT_EQ(after(words, "--threads"), "2");
  EXPECT_EQ(after(words, "--on-failure"), "fail");
  EXPECT_EQ(after(words, "--engine-token-file"), "logs/engine.token");
  EXPECT_EQ(after(words, "--token-file"), "logs/engine.token");
  EXPECT_EQ(std::ranges::count(words, "encoder=http://127.0.0.1:8101"), 1);
  EXPECT_EQ(std::ranges::count(words, "prefill_decode=http://127.0.0.1:8102"), 1);
  EXPECT_EQ(std::ranges::count(words, "colocated=http://127.0.0.1:8103"), 1);
}

TEST(Topology, TheFilesOwnArgumentWinsOverTheOneMadeHere) {
  Topology topology = good();
  topology.engines[0].args = {"--host=0.0.0.0", "--model", "/other"};
  const auto command = engine_command(topology.engines[0], topology);
  EXPECT_EQ(std::ranges::count(command, "--host"), 0);
  EXPECT_EQ(std::ranges::count(command, "--model"), 1);
}

TEST(Topology, AFolderOfTheArenaReachesEveryEngine) {
  Topology topology = good();
  topology.arena["directory"] = "/dev/shm/x";
  const auto transfer = nlohmann::json::parse(
      after(engine_command(topology.engines[1], topology), "--ec-transfer-config"));
  EXPECT_EQ(transfer["ec_connector_extra_config"]["directory"], "/dev/shm/x");
  EXPECT_FALSE(transfer["ec_connector_extra_config"].contains("arena"));
  EXPECT_EQ(after(daemon_arguments(topology), "--directory"), "/dev/shm/x");
}

TEST(Topology, EveryMistakeIsRefusedNamingItsKeyAndLine) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"[arema]\n", "did you mean 'arena'"},
      {"[arena]\nsise = '1G'\n", "did you mean 'size'"},
      {"[arena]\nsize = '12Q'\n", "size"},
      {"[arena]\nname = 'a/b'\n", "arena"},
      {"[proxy]\nport = 0\n", "proxy.port"},
      {"[proxy]\narena = 'x'\n", "follows from this file"},
      {"[proxy]\nthreads = [1]\n", "proxy.threads must be a plain value"},
      {"[[engine]]\nname = 'a'\nrole = 'encodr'\nport = 1\nmodel = 'm'\n",
       "did you mean 'encoder'"},
      {"[[engine]]\nname = 'a'\nrole = 'encoder'\nmodel = 'm'\n", "needs a port"},
      {"[[engine]]\nname = 'a'\nport = 1\nmodel = 'm'\n", "needs a role"},
      {"[[engine]]\nname = 'a'\nrole = 'encoder'\nport = 1\n", "needs a model"},
      {"[[engine]]\nname = '../a'\nrole = 'encoder'\nport = 1\nmodel = 'm'\n", "needs a name"},
      {"[[engine]]\nname = 'a'\nrole = 'encoder'\nport = 70000\nmodel = 'm'\n", "port"},
      {"[[engine]]\nname = 'a'\nrole = 'encoder'\nport = 1\nmodel = 'm'\nprot = 2\n",
       "did you mean 'port'"},
      {"[[engine]]\nname = 'a'\nrole = 'encoder'\nport = 1\nmodel = 'm'\nargs = 'x'\n", "list"},
      {"[[engine]]\nname = 'a'\nrole = 'encoder'\nport = 1\nmodel = 'm'\nenv = { A = 1 }\n",
       "env.A"},
      {"[[engine]]\nname = 'a'\nrole = 'none'\nport = 1\nmodel = 'm'\n[[engine]]\nname = 'a'\nrole "
       "= 'none'\nport = 2\nmodel = 'm'\n",
       "two engines"},
      {"[[engine]]\nname = 'a'\nrole = 'none'\nport = 1\nmodel = 'm'\n[[engine]]\nname = 'b'\nrole "
       "= 'none'\nport = 1\nmodel = 'm'\n",
       "two engines"},
      {"[engine]\nname = 'a'\n", "[[engine]]"},
      {"ready-timeout = 30\n", "ready-timeout"},
      {"log-dir = ''\n", "log-dir"},
  };
  for (const auto& [text, reason] : wrong) {
    const auto topology = parse_topology(text, "t.toml");
    ASSERT_FALSE(topology.has_value()) << text;
    EXPECT_EQ(topology.error().code, Code::kInvalidArgument);
    EXPECT_NE(topology.error().message.find(reason), std::string::npos) << text << "\n"
                                                                        << topology.error().message;
    EXPECT_NE(topology.error().message.find("t.toml"), std::string::npos)
        << topology.error().message;
  }
}

TEST(Topology, FlagsAloneMakeOneEncoderAndOnePrefillDecode) {
  const auto topology = pair_topology(
      {.arena = "a", .size = "64M", .model = "m", .python = "py", .port = 9000, .args = {"--x"}});
  ASSERT_TRUE(topology.has_value());
  ASSERT_EQ(topology->engines.size(), 2u);
  EXPECT_EQ(topology->engines[0].role, Role::kEncoder);
  EXPECT_EQ(topology->engines[1].role, Role::kPrefillDecode);
  EXPECT_EQ(topology->engines[1].port, 9001);
  EXPECT_FALSE(
      pair_topology({.size = "12Q", .model = "m", .python = "py", .args = {}}).has_value());
}

TEST(Topology, AShellLineQuotesWhatAShellWouldChange) {
  EXPECT_EQ(shell_line({"a", "b c", "", "it's"}), "a 'b c' '' 'it'\\''s'");
}

}  // namespace
}  // namespace sluice::cli
