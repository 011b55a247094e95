// Object keys: text that parses is canonical, and fields that make a key come back from its text.
#include <sluice/object_key.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/limits.h"
#include "fuzz_target.h"

namespace {

using namespace sluice;

void check_key(const ObjectKey& key) {
  CHECK(key.text().size() <= kKeyBytesMax);
  const auto fields = key.fields();
  CHECK(ObjectKey::make(fields).value() == key);
  CHECK(ObjectKey::parse(key.text()).value() == key);
  CHECK(key.with_id(fields.id).value() == key);
  CHECK(std::string(key.prefix_text()) + "@id:" + std::string(key.id_text()) == key.text());
}

// The bytes as fields, each behind its length.
KeyFields fields_from(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  KeyFields fields;
  fields.kind = static_cast<ObjectKind>(reader.read<std::uint8_t>());
  for (auto* field : {&fields.prefix, &fields.tenant, &fields.model, &fields.revision,
                      &fields.encoder, &fields.dtype, &fields.id}) {
    *field = reader.take_text(reader.read<std::uint8_t>());
  }
  return fields;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::bytes_of(data, size);
  const auto text = fuzz::text_of(bytes);
  if (const auto key = ObjectKey::parse(text)) {
    CHECK(key->text() == text);
    check_key(*key);
  }
  if (const auto key = ObjectKey::from_text(text)) check_key(*key);
  const auto fields = fields_from(bytes);
  if (const auto key = ObjectKey::make(fields)) {
    CHECK(key->fields() == fields);
    check_key(*key);
  }
  return 0;
}
