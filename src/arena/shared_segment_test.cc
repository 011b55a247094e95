#include "arena/shared_segment.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"

namespace sluice::arena {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kBytes = 16 * kPageBytes;

// A folder in shared memory that goes with its test.
class SharedSegment : public testing::Test {
 protected:
  SharedSegment() {
    std::string pattern = "/dev/shm/sluice-segment-test-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~SharedSegment() override { fs::remove_all(folder_); }

  std::string path(const char* file = "segment") const { return (folder_ / file).string(); }
  UniqueFd create(std::uint64_t bytes = kBytes) const {
    auto fd = create_segment(path(), bytes, 0600);
    EXPECT_TRUE(fd) << fd.error().message;
    return std::move(*fd);
  }
  Mapping map(int fd, Access access) const {
    auto mapping = map_segment(fd, kBytes, {.access = access});
    EXPECT_TRUE(mapping) << mapping.error().message;
    return std::move(*mapping);
  }

  fs::path folder_;
};

// Runs `body` in a child; its return value is the exit status, a signal shows as 128 + signal.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(SharedSegment, ACreatedFileOwnsAllItsBytesAndTheModeAskedFor) {
  const mode_t before = ::umask(0077);
  const auto fd = create_segment(path(), kBytes, 0640);
  ::umask(before);
  ASSERT_TRUE(fd) << fd.error().message;
  struct stat status{};
  ASSERT_EQ(::fstat(fd->get(), &status), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), kBytes);
  EXPECT_GE(static_cast<std::uint64_t>(status.st_blocks) * 512, kBytes) << "not allocated";
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_NE(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(SharedSegment, AnExistingFileIsNeverOverwritten) {
  const UniqueFd fd = create();
  const auto again = create_segment(path(), kBytes, 0600);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kIo);
  EXPECT_EQ(fs::file_size(path()), kBytes);
}

TEST_F(SharedSegment, ASizeThatIsNoPositiveMultipleOfAPageIsRefused) {
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{1}, kBytes + 1, UINT64_MAX, UINT64_MAX - kPageBytes + 1}) {
    const auto fd = create_segment(path(), bytes, 0600);
    ASSERT_FALSE(fd) << bytes;
    EXPECT_EQ(fd.error().code, Code::kInvalidArgument);
    EXPECT_FALSE(fs::exists(path()));
  }
}

TEST_F(SharedSegment, MoreThanTheFileSystemHasIsAnErrorThatNamesBothSizesAndLeavesNothing) {
  const auto fd = create_segment(path(), std::uint64_t{1} << 50, 0600);
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().code, Code::kOutOfSpace);
  EXPECT_NE(fd.error().message.find("1125899906842624"), std::string::npos) << fd.error().message;
  EXPECT_NE(fd.error().message.find("free"), std::string::npos);
  EXPECT_FALSE(fs::exists(path()));
}

// A tmpfs of one megabyte, in a mount namespace of its own where that is allowed.
TEST_F(SharedSegment, AFullTmpfsIsAnErrorAndNeverASignal) {
  constexpr int kNoNamespace = 77;
  const int result = in_child([&] {
    const std::string small = (folder_ / "small").string();
    ::mkdir(small.c_str(), 0700);
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
      return kNoNamespace;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNoNamespace;
    if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=1m") != 0) return kNoNamespace;
    const auto first = create_segment(small + "/first", 512 * 1024, 0600);
    if (!first) return 1;
    const auto second = create_segment(small + "/second", 1024 * 1024, 0600);
    if (second || second.error().code != Code::kOutOfSpace) return 2;
    if (second.error().message.find("1048576") == std::string::npos) return 3;
    if (fs::exists(small + "/second")) return 4;
    // What is left is still there for a smaller one, and all of what was created can be written.
    if (!create_segment(small + "/third", 256 * 1024, 0600)) return 5;
    const auto mapping = map_segment(first->get(), 512 * 1024, {.access = Access::kReadWrite});
    if (!mapping) return 6;
    std::memset(mapping->data(), 0x5A, mapping->size());
    return 0;
  });
  if (result == kNoNamespace) GTEST_SKIP() << "mounting needs privileges that this user lacks";
  EXPECT_EQ(result, 0);
}

TEST_F(SharedSegment, AFileSizeLimitIsAnErrorThatLeavesNothing) {
  const int result = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = kBytes, .rlim_max = kBytes};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    const auto fd = create_segment(path(), 2 * kBytes, 0600);
    if (fd) return 2;
    if (fd.error().code != Code::kOutOfSpace) return 3;
    return fs::exists(path()) ? 4 : 0;
  });
  EXPECT_EQ(result, 0);
}

TEST_F(SharedSegment, ExhaustedDescriptorsAreAnError) {
  const int result = in_child([&] {
    const rlimit limit{.rlim_cur = 3, .rlim_max = 3};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
    const auto fd = create_segment(path(), kBytes, 0600);
    return !fd && fd.error().code == Code::kIo ? 0 : 2;
  });
  EXPECT_EQ(result, 0);
}

TEST_F(SharedSegment, OpeningChecksKindAndSize) {
  const UniqueFd fd = create();
  EXPECT_TRUE(open_segment(path(), kBytes, Access::kReadOnly));
  EXPECT_TRUE(open_segment(path(), 0, Access::kReadWrite));

  const auto larger = open_segment(path(), kBytes + kPageBytes, Access::kReadOnly);
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code, Code::kCorrupt);
  EXPECT_EQ(larger.error().drop, Drop::kSegment);
  EXPECT_EQ(fs::file_size(path()), kBytes) << "left as it is";

  EXPECT_EQ(open_segment(path("missing"), 0, Access::kReadOnly).error().code, Code::kNotFound);
  EXPECT_EQ(open_segment(folder_.string(), 0, Access::kReadOnly).error().code, Code::kCorrupt);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(open_segment(path("fifo"), 0, Access::kReadOnly).error().code, Code::kCorrupt);
  fs::create_symlink(path(), path("link"));
  EXPECT_FALSE(open_segment(path("link"), 0, Access::kReadOnly));
  {
    std::ofstream(path("odd")) << "not a page";
  }
  EXPECT_EQ(open_segment(path("odd"), 0, Access::kReadOnly).error().code, Code::kCorrupt);
  {
    const std::ofstream empty(path("empty"));
  }
  EXPECT_EQ(open_segment(path("empty"), 0, Access::kReadOnly).error().code, Code::kCorrupt);
}

TEST_F(SharedSegment, TheFileIsNeverMappedBeyondItsEnd) {
  const UniqueFd fd = create();
  const auto mapping = map_segment(fd.get(), kBytes + kPageBytes, {});
  ASSERT_FALSE(mapping);
  EXPECT_EQ(mapping.error().code, Code::kCorrupt);
  EXPECT_EQ(map_segment(fd.get(), 0, {}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(map_segment(-1, kBytes, {}).error().code, Code::kIo);
}

TEST_F(SharedSegment, AWriteIsSeenByOtherMappingsAndAPrivateOneIsNot) {
  const UniqueFd fd = create();
  const Mapping writer = map(fd.get(), Access::kReadWrite);
  const Mapping reader = map(fd.get(), Access::kReadOnly);
  const Mapping stray = map(fd.get(), Access::kPrivate);
  writer.bytes()[5] = std::byte{1};
  EXPECT_EQ(reader.bytes()[5], std::byte{1});
  EXPECT_EQ(stray.bytes()[5], std::byte{1});
  stray.bytes()[5] = std::byte{2};
  EXPECT_EQ(reader.bytes()[5], std::byte{1});
}

TEST_F(SharedSegment, DroppedPrivatePagesShowTheSharedBytesAgain) {
  const UniqueFd fd = create();
  const Mapping writer = map(fd.get(), Access::kReadWrite);
  const Mapping stray = map(fd.get(), Access::kPrivate);
  stray.bytes()[0] = std::byte{2};
  stray.bytes()[kPageBytes] = std::byte{2};
  writer.bytes()[0] = std::byte{7};
  EXPECT_EQ(stray.bytes()[0], std::byte{2});
  ASSERT_TRUE(stray.drop_private_pages(0, kPageBytes));
  EXPECT_EQ(stray.bytes()[0], std::byte{7});
  EXPECT_EQ(stray.bytes()[kPageBytes], std::byte{2}) << "outside the range";
  EXPECT_TRUE(stray.drop_private_pages(kBytes, 0));
  EXPECT_FALSE(stray.drop_private_pages(1, kPageBytes));
  EXPECT_FALSE(stray.drop_private_pages(0, kBytes + kPageBytes));
  EXPECT_FALSE(stray.drop_private_pages(UINT64_MAX - kPageBytes + 1, 2 * kPageBytes));
}

TEST_F(SharedSegment, APrivateMappingNeedsOnlyADescriptorForReading) {
  const UniqueFd created = create();
  const auto fd = open_segment(path(), kBytes, Access::kPrivate);
  ASSERT_TRUE(fd);
  const Mapping stray = map(fd->get(), Access::kPrivate);
  stray.bytes()[0] = std::byte{1};
  const auto shared = map_segment(fd->get(), kBytes, {.access = Access::kReadWrite});
  ASSERT_FALSE(shared);
  EXPECT_EQ(shared.error().code, Code::kPermission);
}

TEST_F(SharedSegment, AChildDoesNotInheritAMapping) {
  const UniqueFd fd = create();
  for (const Access access : {Access::kReadOnly, Access::kReadWrite, Access::kPrivate}) {
    const Mapping mapping = map(fd.get(), access);
    const int result = in_child([&] {
      unsigned char resident[kBytes / kPageBytes];
      const bool there = ::mincore(mapping.data(), mapping.size(), resident) == 0;
      return !there && errno == ENOMEM ? 0 : 1;
    });
    EXPECT_EQ(result, 0);
  }
}

TEST_F(SharedSegment, AMovedMappingIsUnmappedOnce) {
  const UniqueFd fd = create();
  Mapping first = map(fd.get(), Access::kReadWrite);
  std::byte* const at = first.data();
  Mapping second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what moving leaves is the promise here
  EXPECT_EQ(second.data(), at);
  second = map(fd.get(), Access::kReadWrite);
  EXPECT_TRUE(second);
  second = Mapping();
  EXPECT_FALSE(second);
}

TEST_F(SharedSegment, AMappingOutlivesItsDescriptorAndItsName) {
  UniqueFd fd = create();
  const Mapping mapping = map(fd.get(), Access::kReadWrite);
  fd.reset();
  fs::remove(path());
  mapping.bytes()[kBytes - 1] = std::byte{9};
  EXPECT_EQ(mapping.bytes()[kBytes - 1], std::byte{9});
}

TEST_F(SharedSegment, AskingForHugePagesIsNeverAnError) {
  const UniqueFd fd = create();
  const auto mapping =
      map_segment(fd.get(), kBytes, {.access = Access::kReadWrite, .huge_pages = true});
  ASSERT_TRUE(mapping);
  mapping->bytes()[0] = std::byte{1};
}

// Pages of the mapping that stand in this process's page table: bit 63 of their pagemap entries.
std::size_t pages_mapped_in(const Mapping& mapping) {
  const UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::vector<std::uint64_t> entries(mapping.size() / kPageBytes);
  const std::size_t bytes = entries.size() * sizeof(std::uint64_t);
  const auto first_page = reinterpret_cast<std::uintptr_t>(mapping.data()) / kPageBytes;
  const auto at = static_cast<off_t>(first_page * sizeof(std::uint64_t));
  EXPECT_EQ(::pread(pagemap.get(), entries.data(), bytes, at), static_cast<ssize_t>(bytes));
  return static_cast<std::size_t>(
      std::count_if(entries.begin(), entries.end(), [](auto e) { return (e >> 63) != 0; }));
}

TEST_F(SharedSegment, APopulatedRangeIsMappedInWholePagesAndKeepsItsBytes) {
  constexpr std::size_t kPages = kBytes / kPageBytes;
  const UniqueFd fd = create();
  const Mapping writer = map(fd.get(), Access::kReadWrite);
  const Mapping reader = map(fd.get(), Access::kReadOnly);
  const Mapping stray = map(fd.get(), Access::kPrivate);
  writer.bytes()[kPageBytes + 1] = std::byte{7};
  EXPECT_EQ(pages_mapped_in(reader), 0u);

  // A range that begins and ends inside a page takes those pages in too.
  ASSERT_TRUE(populate(writer.bytes().subspan(100, kBytes - 200), Touch::kWrite));
  EXPECT_EQ(pages_mapped_in(writer), kPages);
  ASSERT_TRUE(populate(reader.bytes().first(3 * kPageBytes), Touch::kRead));
  EXPECT_GE(pages_mapped_in(reader), 3u);
  ASSERT_TRUE(populate(stray.bytes(), Touch::kWrite));
  EXPECT_EQ(pages_mapped_in(stray), kPages);

  for (const Mapping* mapping : {&writer, &reader, &stray}) {
    for (std::size_t at = 0; at < kBytes; ++at) {
      ASSERT_EQ(mapping->bytes()[at], at == kPageBytes + 1 ? std::byte{7} : std::byte{0});
    }
  }
}

TEST_F(SharedSegment, PopulatingForAWriteWhatMayNotBeWrittenIsAnErrorAndNeverASignal) {
  const UniqueFd fd = create();
  const Mapping reader = map(fd.get(), Access::kReadOnly);
  EXPECT_FALSE(populate(reader.bytes(), Touch::kWrite));
  EXPECT_TRUE(populate(reader.bytes(), Touch::kRead));
  EXPECT_TRUE(populate({}, Touch::kWrite));
}

TEST_F(SharedSegment, PopulatingWhileOthersWriteLosesNoWrite) {
  const UniqueFd fd = create();
  const Mapping mine = map(fd.get(), Access::kReadWrite);
  const Mapping theirs = map(fd.get(), Access::kReadWrite);
  std::atomic<bool> stop = false;
  std::thread populating([&] {
    while (!stop) EXPECT_TRUE(populate(theirs.bytes(), Touch::kWrite));
  });
  auto* const counter = reinterpret_cast<std::atomic<std::uint8_t>*>(mine.data());
  for (int i = 0; i < 100000; ++i) {
    const auto expected = static_cast<std::uint8_t>(i);
    counter->store(expected, std::memory_order_relaxed);
    ASSERT_EQ(counter->load(std::memory_order_relaxed), expected);
  }
  stop = true;
  populating.join();
}

}  // namespace
}  // namespace sluice::arena
