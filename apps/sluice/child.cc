#include "child.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice::cli {
namespace {

constexpr std::size_t kLastLinesMax = 20;
constexpr std::size_t kLineBytesMax = 4096;
constexpr int kCannotRun = 127;

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

// Between fork and exec: only calls that are safe there.
[[noreturn]] void become(char* const* command, char* const* environment, int output,
                         pid_t parent) noexcept {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kCannotRun);  // it died before the line above
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
      ::dup2(output, STDERR_FILENO) < 0) {
    ::_exit(kCannotRun);
  }
  if (null > STDERR_FILENO) ::close(null);
  ::execvpe(command[0], command, environment);
  const char* reason = ::strerrordesc_np(errno);
  for (const char* part : {"cannot run ", static_cast<const char*>(command[0]), ": ",
                           reason != nullptr ? reason : "?", "\n"}) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, part, std::strlen(part));
  }
  ::_exit(kCannotRun);
}

}  // namespace

std::string describe(const Ending& ending) {
  if (ending.exit_code >= 0) return fmt::format("exit code {}", ending.exit_code);
  const char* name = ::sigdescr_np(ending.signal_number);
  return fmt::format("signal {} ({})", ending.signal_number, name != nullptr ? name : "unknown");
}

Result<Child> Child::start(const ChildSpec& spec) {
  const auto refuse = [&](std::string_view what) {
    return fail(Code::kIo, fmt::format("{}: {}: {}", spec.name, what, std::strerror(errno)));
  };
  Child child;
  child.name_ = spec.name;
  child.log_path_ = spec.log_path;
  child.log_ = UniqueFd(
      ::open(spec.log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (!child.log_) return refuse(fmt::format("cannot write its log {}", spec.log_path));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return refuse("no pipe for its output");
  child.output_ = UniqueFd(ends[0]);
  const UniqueFd write_end(ends[1]);
  ::fcntl(child.output_.get(), F_SETFL, O_NONBLOCK);

  std::vector<std::string> command = spec.command, environment = spec.environment;
  const auto command_pointers = pointers(command), environment_pointers = pointers(environment);
  const pid_t parent = ::getpid();
  child.pid_ = ::fork();
  if (child.pid_ < 0) return refuse("cannot start it");
  if (child.pid_ == 0)
    become(command_pointers.data(), environment_pointers.data(), write_end.get(), parent);
  ::setpgid(child.pid_, child.pid_);  // both sides, so that neither has to wait for the other
  child.pid_fd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0)));
  if (!child.pid_fd_) {
    const auto error = refuse("cannot watch it");
    child.kill();
    ::waitpid(child.pid_, nullptr, 0);
    return error;
  }
  ::fcntl(child.pid_fd_.get(), F_SETFD, FD_CLOEXEC);
  return child;
}

void Child::pump(const std::function<void(std::string_view)>& show) {
  std::array<char, 16384> block;
  while (output_) {
    const ssize_t n = ::read(output_.get(), block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    if (n == 0) {
      output_.reset();
      if (!partial_.empty()) take_line(std::exchange(partial_, {}), show);
      return;
    }
    std::string_view text(block.data(), static_cast<std::size_t>(n));
    [[maybe_unused]] const ssize_t written = ::write(log_.get(), text.data(), text.size());
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      partial_ += text.substr(0, end);
      if (end == std::string_view::npos && partial_.size() < kLineBytesMax) break;
      take_line(std::exchange(partial_, {}), show);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
  }
}

void Child::take_line(std::string_view line, const std::function<void(std::string_view)>& show) {
  line = line.substr(0, kLineBytesMax);
  last_lines_.emplace_back(line);
  if (last_lines_.size() > kLastLinesMax) last_lines_.pop_front();
  if (show) show(line);
}

void Child::terminate() const noexcept {
  if (!ending_) ::kill(pid_, SIGTERM);
}

void Child::kill() {
  if (ending_) return;
  note_shared_files();
  ::kill(-pid_, SIGKILL);
}

bool Child::reap() {
  if (ending_) return true;
  // Looked at first and taken after its group is gone: until it is taken, its number names nobody
  // else's group.
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid_)
    return false;
  note_shared_files();  // of its own children, who may outlive it
  ::kill(-pid_, SIGKILL);
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) return false;
  ending_ = WIFEXITED(status) ? Ending{WEXITSTATUS(status), 0} : Ending{-1, WTERMSIG(status)};
  removed_files_ = leftovers_.remove(pid_);
  return true;
}

}  // namespace sluice::cli
