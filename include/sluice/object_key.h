// object_key.h: the full name of an object: model, revision, dtype, processor, tenant and content.
//
// Text form (docs/formats/object-key.md), fields percent-escaped, in this order, at most 1 KiB:
//   [prefix@]sluice1@tenant:..@kind:..@model:..@revision:..@encoder:..@dtype:..@layout:..[@parallel:..]@id:..
// Invariant: parse(format(k)) == k, and two different keys never format alike. A constructed
//            ObjectKey is valid.
// Threads:   an immutable value, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sluice/error.h>

namespace sluice {

// encoder_output is stored today; the others are reserved names.
enum class ObjectKind : std::uint8_t {
  kEncoderOutput,
  kPrefixFragment,
  kStageOutput,
  kKvHandoff,
  kKvPage
};

std::string_view name(ObjectKind kind) noexcept;

struct KeyFields {
  std::string prefix;  // the operator's namespace, optional
  std::string tenant = "default";
  ObjectKind kind = ObjectKind::kEncoderOutput;
  std::string model;                  // full model name
  std::string revision;               // revision or weights fingerprint
  std::string encoder;                // hash of all that changes the output for the same input
  std::string dtype;                  // of the stored tensor
  std::string layout = "replicated";  // rank_sharded, segmented: reserved, refused
  std::string parallel;               // sharded layouts only
  std::string id;                     // the item's identifier; never empty

  bool operator==(const KeyFields&) const = default;
};

class ObjectKey {
 public:
  // Refuses empty required fields, unknown or reserved layouts and text over 1 KiB, naming the
  // field.
  static Result<ObjectKey> make(const KeyFields& fields);

  // The text form. Refuses what format() would never print.
  static Result<ObjectKey> parse(std::string_view text);

  // For people and scripts: the text form when it contains "sluice1@", otherwise a plain name that
  // becomes tenant:default, model:adhoc, revision:none, encoder:none, dtype:any, id:<name>.
  static Result<ObjectKey> from_text(std::string_view text_or_name);

  const std::string& text() const noexcept { return text_; }
  // Everything before "@id:" — shared by all objects of one engine configuration, interned in the
  // index.
  std::string_view prefix_text() const noexcept {
    return std::string_view(text_).substr(0, id_at_ - 4);
  }
  // The escaped id, as it stands in text().
  std::string_view id_text() const noexcept { return std::string_view(text_).substr(id_at_); }
  ObjectKind kind() const noexcept { return kind_; }
  KeyFields fields() const;

  // The same configuration with another id. Cheaper than make().
  Result<ObjectKey> with_id(std::string_view id) const;

  bool operator==(const ObjectKey& other) const noexcept { return text_ == other.text_; }

 private:
  ObjectKey() = default;

  std::string text_;
  std::size_t id_at_ = 0;
  ObjectKind kind_ = ObjectKind::kEncoderOutput;
};

}  // namespace sluice
