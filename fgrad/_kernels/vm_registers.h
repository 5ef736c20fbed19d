/* Eight vectors of a strip that is wanted again, in registers that all else in this module leaves alone. Calls may use them, which does not
 * matter: a program of stages has none but the jumps between its stages. A system's header: without GCC's warning about that. */
#pragma GCC system_header
register fg_m_i32 fg_bank0 __asm__("xmm24");
register fg_m_i32 fg_bank1 __asm__("xmm25");
register fg_m_i32 fg_bank2 __asm__("xmm26");
register fg_m_i32 fg_bank3 __asm__("xmm27");
register fg_m_i32 fg_bank4 __asm__("xmm28");
register fg_m_i32 fg_bank5 __asm__("xmm29");
register fg_m_i32 fg_bank6 __asm__("xmm30");
register fg_m_i32 fg_bank7 __asm__("xmm31");
