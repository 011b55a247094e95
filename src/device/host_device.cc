#include <sluice/device.h>

#include "base/checksum.h"

namespace sluice {
namespace {

// Device memory is host memory here, so both directions are one copy at the machine's speed, ended
// on return.
class HostDevice final : public Device {
 public:
  std::string_view name() const noexcept override { return "host"; }

  Result<Completion> copy_out(std::span<std::byte> to, DeviceAddress from, Stream stream) override {
    if (auto copied = download(to, from, stream); !copied) return std::unexpected(copied.error());
    return Completion{};
  }

  Result<Completion> copy_in(DeviceAddress to, std::span<const std::byte> from,
                             Stream stream) override {
    if (auto copied = upload(to, from, stream); !copied) return std::unexpected(copied.error());
    return Completion{};
  }

 protected:
  Status download(std::span<std::byte> to, DeviceAddress from, Stream) override {
    if (to.empty()) return {};
    if (from.value == 0)
      return fail(Code::kInvalidArgument, "the source of a host copy is a null pointer");
    copy_bytes(to, {reinterpret_cast<const std::byte*>(from.value), to.size()});
    return {};
  }

  Status upload(DeviceAddress to, std::span<const std::byte> from, Stream) override {
    if (from.empty()) return {};
    if (to.value == 0)
      return fail(Code::kInvalidArgument, "the target of a host copy is a null pointer");
    copy_bytes({reinterpret_cast<std::byte*>(to.value), from.size()}, from);
    return {};
  }
};

}  // namespace

std::unique_ptr<Device> make_host_device() {
  return std::make_unique<HostDevice>();
}

}  // namespace sluice
