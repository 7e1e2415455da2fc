#include <csetjmp>
#include <cstdio>
#include <cstring>
// libjpeg's headers need <cstdio>.
#include <jpeglib.h>
// This one needs the others.
#include <jerror.h>

#include <algorithm>

#include "data/image_codecs.hpp"

namespace tern::data {

namespace {

// A photograph has at most a few dozen scans; a file with thousands of tiny ones only costs time.
constexpr int most_scans = 100;

/// Warnings after which pixels are guesses: libjpeg would fill in grey and continue.
bool is_damage(int code) {
  switch (code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
    case JWRN_ARITH_BAD_CODE:
      return true;
    default:
      return false;
  }
}

/// libjpeg's decompressor. It reports a failure by not returning from its handler, so every call must be `guarded`: the
/// handler jumps back there, over frames of libjpeg only.
struct Decompressor {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf back{};
  char reason[JMSG_LENGTH_MAX] = "";

  Decompressor() {
    info.err = jpeg_std_error(&errors);
    info.client_data = this;
    errors.error_exit = [](j_common_ptr common) { of(common).leave(); };
    errors.emit_message = [](j_common_ptr common, int level) {
      if (level < 0 && is_damage(common->err->msg_code)) of(common).leave();
    };
    errors.output_message = [](j_common_ptr) {};
    progress.progress_monitor = [](j_common_ptr common) {
      Decompressor& jpeg = of(common);
      if (jpeg.info.input_scan_number <= most_scans) return;
      std::snprintf(jpeg.reason, sizeof(jpeg.reason), "more than %d scans", most_scans);
      std::longjmp(jpeg.back, 1);
    };
  }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  ~Decompressor() { jpeg_destroy_decompress(&info); }

  /// False if a call of libjpeg's in `calls` failed, with `reason`. `calls` must have nothing to destroy.
  template <class Calls>
  bool guarded(const Calls& calls) {
    if (setjmp(back) != 0) return false;
    calls();
    return true;
  }

  bool out_of_memory() const { return errors.msg_code == JERR_OUT_OF_MEMORY; }

 private:
  static Decompressor& of(j_common_ptr common) { return *static_cast<Decompressor*>(common->client_data); }
  [[noreturn]] void leave() {
    errors.format_message(reinterpret_cast<j_common_ptr>(&info), reason);
    std::longjmp(back, 1);
  }
};

[[noreturn]] void fail(const Decompressor& jpeg, const std::string& name) {
  if (jpeg.out_of_memory()) throw OutOfMemory(message(name, ": no memory to decode the JPEG"));
  const bool cut = jpeg.errors.msg_code == JWRN_JPEG_EOF || jpeg.errors.msg_code == JERR_INPUT_EOF;
  throw FileError(message(
      name,
      cut ? ": the JPEG data ends early (" : ": the JPEG data is damaged or of a kind that libjpeg does not read (",
      jpeg.reason,
      cut ? "); the file was cut short, fetch it again or remove it" : "); fetch it again, convert it, or remove it"));
}

/// The largest reduction that leaves twice the needed pixels, so that only the resizing's antialiasing is visible.
/// libjpeg's own reductions are cheap because they skip parts of each block's transform.
int choose_reduction(std::int64_t short_side, std::int64_t wanted) {
  if (wanted <= 0) return 1;
  int reduction = 8;
  while (reduction > 1 && short_side / reduction < 2 * wanted) reduction /= 2;
  return reduction;
}

/// Ink to light. Adobe's files, nearly all of them, hold the complement of the ink.
void cmyk_to_rgb(const std::uint8_t* from, std::int64_t count, bool complement, std::uint8_t* to) {
  const unsigned flip = complement ? 0 : 255;
  for (std::int64_t i = 0; i < count; ++i, from += 4, to += 3)
    for (int channel = 0; channel < 3; ++channel)
      to[channel] = static_cast<std::uint8_t>(((from[channel] ^ flip) * (from[3] ^ flip) + 127) / 255);
}

}  // namespace

DecodedImage decode_jpeg(std::span<const std::byte> bytes, const std::string& name, const DecodeRequest& request) {
  Decompressor jpeg;
  jpeg_decompress_struct& info = jpeg.info;
  const bool opened = jpeg.guarded([&] {
    jpeg_create_decompress(&info);
    info.progress = &jpeg.progress;
    // Old versions of the header take a pointer to non-const bytes but do not change them.
    jpeg_mem_src(&info, const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data())),
                 static_cast<unsigned long>(bytes.size()));
    jpeg_read_header(&info, TRUE);
  });
  if (!opened) fail(jpeg, name);
  DecodedImage image{.height = info.image_height, .width = info.image_width};
  check_declared_size(image.width, image.height, name, request.limit);

  image.reduction = choose_reduction(std::min(image.width, image.height), request.short_side);
  const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(image.reduction);
  if (!jpeg.guarded([&] { jpeg_calc_output_dimensions(&info); })) fail(jpeg, name);
  const std::int64_t width = info.output_width;
  // A multi-scan JPEG is kept as coefficients until its last scan.
  std::uint64_t wanted = std::uint64_t{info.output_width} * info.output_height * 3;
  for (int i = 0; i < info.num_components && jpeg_has_multiple_scans(&info) != 0; ++i)
    wanted += std::uint64_t{info.comp_info[i].width_in_blocks} * info.comp_info[i].height_in_blocks * DCTSIZE2 *
              sizeof(JCOEF);
  check_memory(wanted, bytes.size(), request, name);
  image.pixels = Tensor({static_cast<std::int64_t>(info.output_height), width, 3}, DType::uint8);
  std::uint8_t* const to = image.pixels.write<std::uint8_t>().data();
  Tensor ink({cmyk ? 4 * width : 0}, DType::uint8);
  std::uint8_t* const ink_row = ink.write<std::uint8_t>().data();

  const bool complete = jpeg.guarded([&] {
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      std::uint8_t* const rgb_row = to + info.output_scanline * width * 3;
      JSAMPROW row = cmyk ? ink_row : rgb_row;
      jpeg_read_scanlines(&info, &row, 1);
      if (cmyk) cmyk_to_rgb(ink_row, width, info.saw_Adobe_marker != 0, rgb_row);
    }
    jpeg_finish_decompress(&info);
  });
  if (!complete) fail(jpeg, name);
  return image;
}

}  // namespace tern::data
