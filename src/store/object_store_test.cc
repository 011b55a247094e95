// ObjectStore against a naive model: random operations of several clients, deaths, expiries,
// restarts and garbage.
#include "store/object_store.h"

#include <cstdlib>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "store/store_model.h"

namespace sluice::store {
namespace {

constexpr std::size_t kOpsPerRun = 400;

void expect_agreement(std::uint64_t seed) {
  const auto ops = random_ops(seed, kOpsPerRun);
  const auto failure = run_ops(ops);
  if (!failure) return;
  const auto smallest = shrink(ops, Fault::kNone);
  ADD_FAILURE() << "seed " << seed << ", " << *failure
                << "\nadd the seed to testdata/object_store_seeds.txt; smallest list: "
                << *run_ops(smallest) << "\n"
                << describe(smallest);
}

TEST(ObjectStore, DoesWhatANaiveModelSays) {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::stoull(given) : std::random_device{}();
  std::printf("SLUICE_TEST_SEED=%lu\n", first);
  const std::uint64_t runs = std::getenv("SLUICE_SOAK") != nullptr ? 3'000 : 40;
  for (std::uint64_t seed = first; seed < first + runs && !HasFailure(); ++seed)
    expect_agreement(seed);
}

TEST(ObjectStore, DoesSoForEverySeedThatOnceFailed) {
  std::ifstream file(SLUICE_STORE_TESTDATA "/object_store_seeds.txt");
  std::uint64_t seed = 0;
  int seeds = 0;
  while (file >> seed) expect_agreement(seed), ++seeds;
  EXPECT_GT(seeds, 0) << "no seeds in " << SLUICE_STORE_TESTDATA;
}

// The model is worth something only if it notices.
TEST(ObjectStore, TheModelFindsReadersThatForgetTheirLeaseAndShowsAShortListThatDoesIt) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto ops = random_ops(seed, kOpsPerRun);
    if (!run_ops(ops, Fault::kLeasesAreNotPublished)) continue;
    const auto smallest = shrink(ops, Fault::kLeasesAreNotPublished);
    EXPECT_LE(smallest.size(), 12u) << describe(smallest);
    EXPECT_TRUE(run_ops(smallest, Fault::kLeasesAreNotPublished));
    EXPECT_FALSE(run_ops(smallest)) << "it fails without the fault too";
    return;
  }
  FAIL() << "fifty runs and nothing noticed";
}

}  // namespace
}  // namespace sluice::store
