/* Two banks of eight vectors for strips that are wanted again, in registers that all else in this module leaves alone. Calls may use them, which
 * does not matter: a program of stages has none but the jumps between its stages. A system's header: without GCC's warning about that. */
#pragma GCC system_header
register fg_m_i32 fg_bank00 __asm__("xmm24");
register fg_m_i32 fg_bank01 __asm__("xmm25");
register fg_m_i32 fg_bank02 __asm__("xmm26");
register fg_m_i32 fg_bank03 __asm__("xmm27");
register fg_m_i32 fg_bank04 __asm__("xmm28");
register fg_m_i32 fg_bank05 __asm__("xmm29");
register fg_m_i32 fg_bank06 __asm__("xmm30");
register fg_m_i32 fg_bank07 __asm__("xmm31");
register fg_m_i32 fg_bank10 __asm__("xmm16");
register fg_m_i32 fg_bank11 __asm__("xmm17");
register fg_m_i32 fg_bank12 __asm__("xmm18");
register fg_m_i32 fg_bank13 __asm__("xmm19");
register fg_m_i32 fg_bank14 __asm__("xmm20");
register fg_m_i32 fg_bank15 __asm__("xmm21");
register fg_m_i32 fg_bank16 __asm__("xmm22");
register fg_m_i32 fg_bank17 __asm__("xmm23");
