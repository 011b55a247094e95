// framing_cases.h: malformed requests, each with the answer it gets. For the pure check and, byte
// for byte, for a running server.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::http {

struct FramingCase {
  const char* name;
  std::string bytes;
  unsigned status;
  const char* code;
};

inline void PrintTo(const FramingCase& one, std::ostream* out) {
  *out << one.name;
}

inline std::string nul(std::string_view before, std::string_view after) {
  std::string out(before);
  out.push_back('\0');
  out.append(after);
  return out;
}

inline std::string many_fields(std::size_t count) {
  std::string out = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (std::size_t i = 1; i < count; ++i) out += "X-" + std::to_string(i) + ": v\r\n";
  return out + "\r\n";
}

// Refused from the header alone.
inline std::vector<FramingCase> malformed_headers() {
  const std::string get = "GET / HTTP/1.1\r\nHost: x\r\n";
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\n";
  return {
      // Two readings of where the body ends.
      {"TwoLengthsThatDiffer", post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400,
       "two_lengths"},
      {"TwoLengthsThatAgree", post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400,
       "two_lengths"},
      {"TwoLengthsInOtherCases", post + "content-length: 3\r\nCONTENT-LENGTH: 3\r\n\r\nabc", 400,
       "two_lengths"},
      {"ListOfLengths", post + "Content-Length: 3, 3\r\n\r\nabc", 400, "bad_length"},
      {"LengthAndChunked",
       post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
       "length_and_chunked"},
      {"ChunkedAndLength",
       post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400,
       "length_and_chunked"},
      {"LengthZeroAndChunked",
       post + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
       "length_and_chunked"},
      {"TwoTransferEncodings",
       post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
       "two_encodings"},
      {"ChunkedTwice", post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400,
       "bad_transfer_encoding"},
      {"ChunkedIsNotLast", post + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400,
       "bad_transfer_encoding"},
      {"GzipThenChunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400,
       "bad_transfer_encoding"},
      {"IdentityEncoding", post + "Transfer-Encoding: identity\r\n\r\n", 400,
       "bad_transfer_encoding"},
      {"UnknownEncoding", post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400,
       "bad_transfer_encoding"},
      {"QuotedChunked", post + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 400,
       "bad_transfer_encoding"},
      {"EmptyEncoding", post + "Transfer-Encoding:\r\n\r\n", 400, "bad_transfer_encoding"},
      {"ChunkedWithParameter", post + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", 400,
       "bad_transfer_encoding"},
      {"ChunkedBehindVerticalTab",
       post + "Transfer-Encoding: \x0b"
              "chunked\r\n\r\n0\r\n\r\n",
       400, "control_character"},
      {"ChunkedOnHttp10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
       "bad_transfer_encoding"},
      // Lengths that are none.
      {"NegativeLength", post + "Content-Length: -1\r\n\r\n", 400, "bad_length"},
      {"LengthWithPlus", post + "Content-Length: +3\r\n\r\nabc", 400, "bad_length"},
      {"HexLength", post + "Content-Length: 0x10\r\n\r\n", 400, "bad_length"},
      {"LengthWithFraction", post + "Content-Length: 3.0\r\n\r\nabc", 400, "bad_length"},
      {"LengthWithSpaceInside", post + "Content-Length: 1 0\r\n\r\n", 400, "bad_length"},
      {"EmptyLength", post + "Content-Length:\r\n\r\n", 400, "bad_length"},
      {"LengthOfWords", post + "Content-Length: ten\r\n\r\n", 400, "bad_length"},
      {"LengthOver64Bits", post + "Content-Length: 18446744073709551616\r\n\r\n", 400,
       "bad_length"},
      {"LengthOver63Bits", post + "Content-Length: 9223372036854775808\r\n\r\n", 400, "bad_length"},
      {"LengthOfManyDigits", post + "Content-Length: " + std::string(400, '9') + "\r\n\r\n", 400,
       "bad_length"},
      // Lines.
      {"BareLfAfterRequestLine", "GET / HTTP/1.1\nHost: x\r\n\r\n", 400, "bare_lf"},
      {"BareLfAfterField", "GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400, "bare_lf"},
      {"BareLfAtEnd", "GET / HTTP/1.1\r\nHost: x\r\n\n", 400, "bare_lf"},
      {"OnlyLf", "GET / HTTP/1.1\nHost: x\n\n", 400, "bare_lf"},
      {"BareCrInField", get + "A: b\rc\r\n\r\n", 400, "bare_cr"},
      {"BareCrInRequestLine", "GET /\r HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bare_cr"},
      {"CrCrLf", get + "A: b\r\r\n\r\n", 400, "bare_cr"},
      {"EmptyLineFirst", "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_request_line"},
      {"NulInValue", nul(get + "A: b", "c\r\n\r\n"), 400, "control_character"},
      {"NulInName", nul(get + "A", "b: c\r\n\r\n"), 400, "control_character"},
      {"NulInTarget", nul("GET /", " HTTP/1.1\r\nHost: x\r\n\r\n"), 400, "control_character"},
      {"NulInMethod", nul("GE", "T / HTTP/1.1\r\nHost: x\r\n\r\n"), 400, "control_character"},
      {"EscapeInValue", get + "A: \x1b[2J\r\n\r\n", 400, "control_character"},
      {"DeleteInValue", get + "A: b\x7f\r\n\r\n", 400, "control_character"},
      {"VerticalTabInValue",
       get + "A: b\x0b"
             "c\r\n\r\n",
       400, "control_character"},
      {"FormFeedInRequestLine", "GET /\x0c HTTP/1.1\r\nHost: x\r\n\r\n", 400, "control_character"},
      {"FieldFoldedWithSpace", get + "A: b\r\n c\r\n\r\n", 400, "folded_field"},
      {"FieldFoldedWithTab", get + "A: b\r\n\tc\r\n\r\n", 400, "folded_field"},
      {"LengthFolded", post + "Content-Length:\r\n 3\r\n\r\nabc", 400, "folded_field"},
      {"FoldBeforeAnyField", "GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400, "folded_field"},
      // Fields.
      {"SpaceBeforeColon", "GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, "bad_field_name"},
      {"TabBeforeColon", "GET / HTTP/1.1\r\nHost\t: x\r\n\r\n", 400, "bad_field_name"},
      {"SpaceBeforeColonOfLength", post + "Content-Length : 3\r\n\r\nabc", 400, "bad_field_name"},
      {"SpaceInName", get + "A B: c\r\n\r\n", 400, "bad_field_name"},
      {"EmptyName", get + ": c\r\n\r\n", 400, "bad_field_name"},
      {"NameWithSlash", get + "A/B: c\r\n\r\n", 400, "bad_field_name"},
      {"NameWithQuote", get + "\"A\": c\r\n\r\n", 400, "bad_field_name"},
      {"NameBeyondAscii", get + "\xc3\xa9: c\r\n\r\n", 400, "bad_field_name"},
      {"FieldWithoutColon", get + "Content-Length 3\r\n\r\n", 400, "bad_field"},
      {"ConnectionIsNoList", get + "Connection: a b\r\n\r\n", 400, "bad_connection"},
      // Host.
      {"MissingHost", "GET / HTTP/1.1\r\nA: b\r\n\r\n", 400, "missing_host"},
      {"NoFieldsAtAll", "GET / HTTP/1.1\r\n\r\n", 400, "missing_host"},
      {"TwoHosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400, "bad_host"},
      {"HostWithSpace", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "bad_host"},
      {"HostWithPath", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "bad_host"},
      {"HostWithUser", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400, "bad_host"},
      {"ListOfHosts", "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", 400, "bad_host"},
      // The first line.
      {"Http09", "GET /\r\n\r\n", 400, "bad_version"},
      {"Http2Preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "bad_version"},
      {"Http12", "GET / HTTP/1.2\r\nHost: x\r\n\r\n", 400, "bad_version"},
      {"Http20", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400, "bad_version"},
      {"VersionInLowerCase", "GET / http/1.1\r\nHost: x\r\n\r\n", 400, "bad_version"},
      {"VersionWithZeros", "GET / HTTP/01.1\r\nHost: x\r\n\r\n", 400, "bad_version"},
      {"VersionWithMoreBehind", "GET / HTTP/1.1x\r\nHost: x\r\n\r\n", 400, "bad_version"},
      {"OtherProtocol", "GET / RTSP/1.1\r\nHost: x\r\n\r\n", 400, "bad_version"},
      {"SpaceAtEndOfLine", "GET / HTTP/1.1 \r\nHost: x\r\n\r\n", 400, "bad_version"},
      {"NoTarget", "GET  HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_target"},
      {"TwoSpacesBeforeTarget", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_target"},
      {"TwoSpacesBeforeVersion", "GET /  HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_target"},
      {"SpaceInTarget", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_target"},
      {"TabBetweenParts", "GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_method"},
      {"TargetBeyondAscii", "GET /\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_target"},
      {"TargetWithoutSlash", "GET a HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_target"},
      {"AsteriskOfGet", "GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_target"},
      {"AbsoluteWithoutHost", "GET http:///a HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_target"},
      {"AbsoluteWithUser", "GET http://u@h/a HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_target"},
      {"AbsoluteOfOtherScheme", "GET ftp://h/a HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_target"},
      {"Connect", "CONNECT h:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_method"},
      {"MethodWithColon", "GE:T / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_method"},
      {"LongMethod", std::string(33, 'A') + " / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_method"},
      {"OneWord", "garbage\r\n\r\n", 400, "bad_request_line"},
      {"TlsHello", std::string("\x16\x03\x01\x02\x01", 5), 400, "control_character"},
      // Expectations and limits.
      {"OtherExpectation", post + "Expect: 200-ok\r\nContent-Length: 1\r\n\r\na", 417,
       "bad_expect"},
      {"TwoExpectations",
       post + "Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na", 400,
       "bad_expect"},
      {"FieldsBeyondTheirNumber", many_fields(101), 431, "too_many_fields"},
      {"HeaderTooLarge", get + "A: " + std::string(17'000, 'a') + "\r\n\r\n", 431,
       "header_too_large"},
      {"HeaderTooLargeWithoutEnd", get + "A: " + std::string(17'000, 'a'), 431, "header_too_large"},
      {"TargetTooLarge", "GET /" + std::string(17'000, 'a'), 431, "header_too_large"},
  };
}

// Well-formed headers; what is wrong is the chunked body.
inline std::vector<FramingCase> malformed_bodies() {
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  return {
      {"ChunkSizeIsNoNumber", post + "xyz\r\nabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkSizeNegative", post + "-1\r\nabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkSizeWithPlus", post + "+3\r\nabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkSizeWith0x", post + "0x3\r\nabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkSizeMissing", post + "\r\nabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkSizeAfterSpace", post + " 3\r\nabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkSizeBeforeSpace", post + "3 \r\nabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkSizeOver64Bits", post + "10000000000000003\r\nabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkSizeOver63Bits", post + "8000000000000000\r\nabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkSizeOfManyZeros", post + std::string(40, '0') + "3\r\nabc\r\n0\r\n\r\n", 400,
       "bad_chunk"},
      {"ChunkSizeEndsWithLf", post + "3\nabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkSizeEndsWithCr", post + "3\rabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkDataEndsWithLf", post + "3\r\nabc\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkLongerThanItsSize", post + "3\r\nabcd\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ChunkShorterThanItsSize", post + "4\r\nabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ExtensionWithLf", post + "3;a\nb\r\nabc\r\n0\r\n\r\n", 400, "bad_chunk"},
      {"ExtensionWithNul", nul(post + "3;a", "b\r\nabc\r\n0\r\n\r\n"), 400, "bad_chunk"},
      {"ExtensionTooLong", post + "3;" + std::string(5'000, 'a') + "\r\nabc\r\n0\r\n\r\n", 400,
       "bad_chunk"},
      {"TrailerWithoutName", post + "3\r\nabc\r\n0\r\n: b\r\n\r\n", 400, "bad_chunk"},
      {"TrailerWithoutColon", post + "3\r\nabc\r\n0\r\nab\r\n\r\n", 400, "bad_chunk"},
      {"TrailerFolded", post + "3\r\nabc\r\n0\r\nA: b\r\n c\r\n\r\n", 400, "bad_chunk"},
      {"TrailerEndsWithLf", post + "3\r\nabc\r\n0\r\nA: b\n\r\n", 400, "bad_chunk"},
      {"TrailersTooLong", post + "0\r\nA: " + std::string(9'000, 'a') + "\r\n\r\n", 400,
       "bad_chunk"},
  };
}

}  // namespace sluice::http
