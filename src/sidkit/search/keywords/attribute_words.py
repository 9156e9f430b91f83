"""English and Chinese words of attribute types that catalogues seldom have a field for.

They are a start: the dictionary that is made with them can be edited.
"""

from __future__ import annotations

__all__ = ["ATTRIBUTE_WORDS", "ATTRIBUTE_WORDS_ZH"]

ATTRIBUTE_WORDS: dict[str, str] = {
    "Color": "black white gray grey silver gold red blue navy green olive yellow orange purple pink brown beige tan "
    "ivory cream turquoise teal maroon burgundy bronze copper chrome transparent clear multicolor multicolour",
    "Material": "wood wooden oak pine bamboo steel stainless aluminum aluminium brass iron metal plastic vinyl pvc "
    "rubber leather suede cotton linen silk wool denim polyester nylon glass ceramic porcelain stone marble granite "
    "concrete paper cardboard silicone foam fiberglass",
    "Style": "modern vintage classic retro rustic casual formal elegant minimalist traditional contemporary industrial",
    "Function": "waterproof wireless cordless rechargeable portable foldable folding adjustable automatic digital "
    "electric manual washable reusable disposable insulated heated cooling noise-cancelling solar",
    "Location": "kitchen bathroom bedroom garage basement attic patio balcony wall ceiling floor window door roof desk",
    "Audience": "men mens women womens kids children boys girls baby babies toddler adult teen unisex dog cat",
    "Scene": "outdoor indoor wedding party office school travel camping hiking gym sport sports christmas birthday "
    "halloween beach",
    "Price": "cheap budget affordable inexpensive premium luxury",
    "Marketing": "new sale discount clearance bestseller gift bundle limited exclusive refurbished",
    "Season": "spring summer autumn fall winter",
    "Pattern": "striped stripe floral plaid checkered solid camouflage camo leopard polka dot geometric paisley",
}

# Found anywhere in a title, as Chinese has no blanks between words.
ATTRIBUTE_WORDS_ZH: dict[str, str] = {
    "Color": "黑色 白色 灰色 银色 金色 红色 蓝色 绿色 黄色 橙色 紫色 粉色 棕色 米色 卡其 咖色 藏青 酒红 透明 彩色",
    "Material": "实木 木质 竹 不锈钢 铝合金 铁艺 塑料 橡胶 真皮 牛皮 皮革 麂皮 纯棉 棉 亚麻 真丝 羊毛 羊绒 "
    "羽绒 牛仔 涤纶 尼龙 雪纺 蕾丝 玻璃 陶瓷 水晶 大理石 硅胶 珊瑚绒 法兰绒",
    "Style": "现代 复古 古典 简约 田园 休闲 正式 优雅 韩版 日系 法式 欧美 中式 新中式 国风 港风 甜美 森系 工装",
    "Function": "防水 无线 充电 便携 折叠 可调节 自动 数码 电动 手动 可水洗 一次性 保暖 加热 制冷 静音 防晒 透气 "
    "速干 防滑 抗菌 除螨 显瘦",
    "Location": "厨房 浴室 卧室 客厅 车库 阳台 墙面 天花板 地板 窗 门 桌面 卫生间",
    "Audience": "男士 男款 女士 女款 儿童 男童 女童 宝宝 婴儿 学生 中老年 妈妈 孕妇 情侣 宠物 猫 狗",
    "Scene": "户外 室内 婚礼 聚会 办公 学校 旅行 露营 登山 健身 运动 居家 通勤 约会 沙滩 过年",
    "Price": "平价 便宜 高档 高端 奢华 轻奢",
    "Marketing": "新款 特价 清仓 爆款 热销 礼盒 套装 限量 正品 包邮 福利 网红",
    "Season": "春季 夏季 秋季 冬季 春秋 秋冬 春夏 四季",
    "Pattern": "条纹 碎花 格子 纯色 印花 波点 迷彩 豹纹 刺绣 几何 卡通",
}
