// writer.h: the Python handle of a reservation.
//
// Invariant: neither a tensor nor a copy on a device writes to the arena once publish() or
//            abandon() was asked: tensors are detached (second_mapping.h) and copies waited for,
//            before the daemon hears of it.
// Threads:   one owner at a time; the GIL is released while bytes move.
// Failure:   Detached after the end. A failed device copy abandons the reservation.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <sluice/client.h>
#include <sluice/device.h>

#include "bindings.h"
#include "second_mapping.h"

namespace sluice::python {

class WriterHandle {
 public:
  explicit WriterHandle(Writer writer) noexcept : writer_(std::move(writer)) {}
  WriterHandle(WriterHandle&&) noexcept = default;
  WriterHandle& operator=(WriterHandle&&) = delete;
  ~WriterHandle();

  bool open() const noexcept { return static_cast<bool>(writer_); }
  const Writer& writer() const;  // raises Detached once it ended
  Writer& writer() { return const_cast<Writer&>(std::as_const(*this).writer()); }

  std::shared_ptr<View> view(std::optional<std::string_view> name);
  void write(std::optional<std::string_view> name, nb::handle source);
  void copy_from(std::optional<std::string_view> name, Device& device, std::uintptr_t address,
                 std::uintptr_t stream);
  PutOutcome publish(std::optional<std::chrono::milliseconds> timeout = {});
  void abandon();
  std::size_t live_views() const noexcept { return mapping_ ? mapping_->views() : 0; }

 private:
  struct Parts {
    std::vector<Completion> copies;
    std::shared_ptr<SecondMapping> mapping;
    Writer writer;  // last: it ends first, and only stop_writing() makes its end safe
    Status stop_writing();
  };

  std::span<std::byte> data(std::optional<std::string_view> name) const;
  Parts take() noexcept;

  Writer writer_;
  std::shared_ptr<SecondMapping> mapping_;  // shared with the views; made by the first of them
  std::vector<Completion> copies_;
};

}  // namespace sluice::python
