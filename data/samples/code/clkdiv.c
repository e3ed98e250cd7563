/* SPDX-License-Identifier: GPL-2.0-only */
/* Part of a small SPI master driver: bus rate and one blocking transfer. */

#include <errno.h>
#include <stdint.h>

struct spi_regs {
	volatile uint32_t cr0;	/* bits 15:8: second factor minus one */
	volatile uint32_t cr1;	/* bit 1: block enabled */
	volatile uint32_t dr;
	volatile uint32_t sr;	/* bit 2: byte received, bit 4: busy */
	volatile uint32_t cpsr;	/* even first factor, 2..254 */
};

#define CR1_ENABLE	(1u << 1)
#define SR_RX_READY	(1u << 2)
#define SR_BUSY		(1u << 4)
#define SPIN_LIMIT	100000u

/*
 * Find the two factors which give the fastest rate not above max_hz.
 * Returns the rate obtained, or 0 if even the slowest one is too fast.
 */
uint32_t spi_find_divider(uint32_t pclk_hz, uint32_t max_hz,
			  uint8_t *first, uint8_t *second)
{
	uint32_t best = 0;

	if (max_hz == 0)
		return 0;

	for (uint32_t a = 2; a <= 254; a += 2) {
		uint32_t step = pclk_hz / a;
		uint32_t b = step / max_hz + (step % max_hz != 0);

		if (b == 0)
			b = 1;
		if (b > 256)
			continue;
		while (b <= 256 && pclk_hz / (a * b) > max_hz)
			b++;
		if (b <= 256 && pclk_hz / (a * b) > best) {
			best = pclk_hz / (a * b);
			*first = (uint8_t)a;
			*second = (uint8_t)(b - 1);
		}
	}
	return best;
}

int spi_set_rate(struct spi_regs *regs, uint32_t pclk_hz, uint32_t max_hz)
{
	uint8_t first, second;

	if (!spi_find_divider(pclk_hz, max_hz, &first, &second))
		return -EINVAL;
	if (regs->sr & SR_BUSY)
		return -EBUSY;

	regs->cr1 &= ~CR1_ENABLE;	/* writes are ignored while enabled */
	regs->cpsr = first;
	regs->cr0 = (regs->cr0 & ~0xff00u) | ((uint32_t)second << 8);
	regs->cr1 |= CR1_ENABLE;
	return 0;
}

int spi_swap_byte(struct spi_regs *regs, uint8_t out, uint8_t *in)
{
	uint32_t spins = SPIN_LIMIT;

	regs->dr = out;
	while (!(regs->sr & SR_RX_READY)) {
		if (--spins == 0)
			return -ETIMEDOUT;
	}
	*in = (uint8_t)regs->dr;
	return 0;
}
